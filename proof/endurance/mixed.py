"""The mixed load: one round enqueues some tasks of every kind, and reads them as users do."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable

from holdfast.errors import TaskFailed, WaitTimeout
from proof.endurance import app

queue = app.queue
RUN = os.getpid()
"""Ids of different runs must not collide."""


async def plain(n: int) -> None:
    """Concurrent callers, and a batch."""
    await asyncio.gather(*(app.work.enqueue(n + i) for i in range(5)))
    await queue.enqueue_many([app.noop.request(i) for i in range(20)])


async def failures(n: int) -> None:
    """Retries, and dead letters of three kinds."""
    await app.flaky.enqueue(n)
    await app.doomed.enqueue(n)
    if n % 5 == 0:
        await app.rejected.enqueue(n)
        await app.late.enqueue(n)


async def dependencies(n: int) -> None:
    """A parent that succeeds, and one that fails together with its child."""
    good, bad = f"good-{RUN}-{n}", f"bad-{RUN}-{n}"
    await queue.enqueue_many(
        [
            {**app.work.request(n), "id": good},
            {**app.doomed.request(n), "id": bad},
            {**app.child.request(n), "depends_on": [good]},
            {**app.child.request(n), "depends_on": [good, bad]},
            {**app.child.request(n), "depends_on": {bad: "ignore"}},
        ]
    )
    await app.child.options(depends_on=[good]).enqueue(n)


async def limits(n: int) -> None:
    """Concurrency, rate, and a limit for a new key."""
    for i in range(3):
        await app.narrow.enqueue(n + i)
    await app.slow_lane.enqueue(n)
    await app.by_key.options(key=f"customer-{n}").enqueue(n)


async def cancellations(n: int) -> None:
    """Cancels waiting and running tasks."""
    waiting = await app.work.options(delay=600).enqueue(n)
    await queue.cancel(waiting, reason="changed my mind")
    if n % 5 == 0:
        running = await app.endless.enqueue(n)
        await asyncio.sleep(0.2)
        await queue.cancel(running)


async def waits(n: int) -> None:
    """Waits for results, for failures, and until a timeout."""
    done = await app.work.enqueue(n)
    await done.result(timeout=30)
    dead = await app.doomed.enqueue(n)
    try:
        await dead.result(timeout=30)
    except TaskFailed:
        pass
    if n % 5 == 0:
        held = await app.work.options(delay=600).enqueue(n)
        try:
            await held.result(timeout=0.05)
        except WaitTimeout:
            pass
        await queue.cancel(held)


async def keys(n: int) -> None:
    """The same request twice."""
    for _ in range(2):
        await app.work.options(idempotency_key=f"order-{n}").enqueue(n)


async def steps(n: int) -> None:
    """Checkpoints, progress, snoozes, steps that run once; threads and processes."""
    await app.steps.enqueue(n)
    await app.threaded.enqueue(n)
    if n % 10 == 0:
        await app.apart.enqueue(n)


async def looks(n: int) -> None:
    """The queries of an operator's page, and actions on dead letters."""
    if n % 10:
        return
    await queue.get_stats()
    tasks = await queue.find_tasks(limit=20)
    for task in tasks[:3]:
        await queue.history(task.id)
        await queue.why(task.id)
    dead = await queue.get_dead_tasks(limit=5)
    if dead:
        await queue.replay_dead_task(dead[0].id)
    await queue.pause_queue("elsewhere")
    await queue.resume_queue("elsewhere")


async def listens(n: int) -> None:
    """Subscribers that come and go."""
    if n % 10:
        return
    position = await queue.position()
    await app.noop.enqueue(n)
    async for _ in queue.events(position):
        break
    end = queue.on_event(lambda event: None)
    await app.noop.enqueue(n)
    end()


PARTS: tuple[Callable[[int], Awaitable[None]], ...] = (
    *(plain, failures, dependencies, limits, cancellations),
    *(waits, keys, steps, looks, listens),
)


async def round_of(n: int) -> None:
    """One round of everything."""
    await asyncio.gather(*(part(n) for part in PARTS))
