"""The tasks of the shop."""

from typing import Any

from holdfast.django.interface import tasks
from shop.models import Order

task: Any = tasks.task


class NoSuchOrder(Exception):
    pass


@task
def pay(name: str, *, amount: int = 1) -> dict[str, Any]:
    changed = Order.objects.filter(name=name).update(is_paid=True)
    if not changed:
        raise NoSuchOrder(name)
    return {"name": name, "amount": amount}


@task(takes_context=True, queue_name="mail", priority=60)
def remind(context: Any, name: str) -> list[Any]:
    return [context.attempt, context.task_result.id, name]


@task
async def count() -> int:
    return int(await Order.objects.acount())
