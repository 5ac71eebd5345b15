"""The mixed load: one round hands in a little of everything, and looks at it as users do."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable

from holdfast.errors import TaskFailed, WaitTimeout
from proof.endurance import app

queue = app.queue
RUN = os.getpid()
"""Ids of one run are not those of another."""


async def plain(n: int) -> None:
    """Callers that come together, and a batch."""
    await asyncio.gather(*(app.work.enqueue(n + i) for i in range(5)))
    await queue.enqueue_many([app.noop.request(i) for i in range(20)])


async def failures(n: int) -> None:
    """Retries, dead letters of three kinds."""
    await app.flaky.enqueue(n)
    await app.doomed.enqueue(n)
    if n % 5 == 0:
        await app.rejected.enqueue(n)
        await app.late.enqueue(n)


async def dependencies(n: int) -> None:
    """A parent that does well, and one that does not and takes its child with it."""
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
    """Concurrency, rate, and a limit for a key that nobody had before."""
    for i in range(3):
        await app.narrow.enqueue(n + i)
    await app.slow_lane.enqueue(n)
    await app.by_key.options(key=f"customer-{n}").enqueue(n)


async def cancellations(n: int) -> None:
    """Of what waits, and of what runs."""
    waiting = await app.work.options(delay=600).enqueue(n)
    await queue.cancel(waiting, reason="changed my mind")
    if n % 5 == 0:
        running = await app.endless.enqueue(n)
        await asyncio.sleep(0.2)
        await queue.cancel(running)


async def waits(n: int) -> None:
    """Results that come, failures that come, patience that ends."""
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
    """Checkpoints, progress, snoozes, effects that happen once; threads and processes."""
    await app.steps.enqueue(n)
    await app.threaded.enqueue(n)
    if n % 10 == 0:
        await app.apart.enqueue(n)


async def looks(n: int) -> None:
    """What a page of an operator asks, and what they do about dead letters."""
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
    """Everything once."""
    await asyncio.gather(*(part(n) for part in PARTS))
