"""The tasks of the shop."""

from typing import Any

from holdfast.django.interface import signals, tasks
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


@task
def report() -> Any:
    """Its result has no form in JSON."""
    return object()


@task
def announce() -> None:
    """A receiver of `task_finished` fails for it."""


def fail(task_result: Any, **_: Any) -> None:
    if task_result.task == announce:
        raise RuntimeError("a receiver fails")


signals.task_finished.connect(fail)
