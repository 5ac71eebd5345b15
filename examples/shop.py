"""A shop with durable orders, for workers in separate processes.

    cd examples
    holdfast worker shop:queue --processes 2        # in one terminal; then in another:
    holdfast enqueue place_order order=17 --wait
    holdfast task list
    holdfast dlq groups

See examples/README.md.
"""

import asyncio
import os

from holdfast import Context, Reject, Snooze, TaskQueue

queue = TaskQueue(os.environ.get("HOLDFAST_URL", "sqlite:///holdfast.db"))


@queue.task(priority="critical", max_attempts=5, key_concurrency=1)
async def charge(ctx: Context, order: int, amount: int) -> str:
    """At most one charge at a time per customer (the key). A bad amount is never retried."""
    if amount <= 0:
        raise Reject(f"an amount of {amount} can never be charged")
    if ctx.attempt == 1 and order % 5 == 0:
        raise ConnectionError("the bank did not answer")  # retried after a growing pause
    return f"charge-{order}-{ctx.fence}"  # the fence rises with each claim: pass it to the bank


@queue.task(rate="20/s")
async def send_receipt(ctx: Context, order: int) -> str:
    """Waits for the charge and reads its result."""
    [paid] = (await ctx.parents()).values()
    return f"receipt for {paid.result}"


@queue.task(isolation="process", timeout=10)
def render_label(order: int) -> str:
    """Runs in a process that can be killed when it takes too long."""
    return f"label-{order}"


@queue.task
async def ship(ctx: Context, order: int) -> str | Snooze:
    """A snooze spends no attempt while the van is away."""
    if ctx.saved is None:
        await ctx.save({"asked_for_a_van": True})
        return Snooze(0.5, "no van yet")
    await ctx.progress(0.9, "on the van")
    return f"order {order} shipped"


@queue.task(priority="high")
async def place_order(order: int) -> list[str]:
    """Enqueues one order: the charge and the tasks that follow it, all or none."""
    ids = {name: f"{name}-{order}" for name in ("charge", "receipt", "label", "ship")}
    await queue.enqueue_many(
        [
            {
                **charge.request(order, 100 + order),
                "id": ids["charge"],
                "key": f"customer-{order % 3}",
            },
            {**send_receipt.request(order), "id": ids["receipt"], "depends_on": [ids["charge"]]},
            {**render_label.request(order), "id": ids["label"], "depends_on": [ids["charge"]]},
            {
                **ship.request(order),
                "id": ids["ship"],
                "depends_on": {ids["charge"]: "fail", ids["label"]: "ignore"},
            },
        ]
    )
    return list(ids.values())


@queue.task(priority="low", cron="0 3 * * *", timezone="Europe/Prague")
async def nightly_report() -> str:
    """Fires once a night, whatever the number of workers."""
    stats = await queue.get_stats()
    return f"{stats.completed} completed, {stats.dead_letter_count} dead letters"


async def main() -> None:
    """All of it in one process: python examples/shop.py"""
    async with queue:
        for order in (4, 5):
            for task_id in await (await place_order.enqueue(order)).result(30):
                task = await queue.wait_task(task_id, 30)
                print(f"{task.id:<12} {task.status:<10} {task.result}")


if __name__ == "__main__":
    asyncio.run(main())
