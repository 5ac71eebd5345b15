"""The queue of the endurance runs: a handler for every path in which something could accumulate.

A module, so that worker processes and process handlers can import it by name.
"""

from __future__ import annotations

import asyncio
import os

from holdfast import Context, Reject, Snooze, TaskQueue

KEEP_SECONDS = float(os.environ.get("ENDURANCE_KEEP", "60"))
"""Short, so that pruning is part of the run."""

queue = TaskQueue(
    os.environ.get("ENDURANCE_URL", "sqlite://"),
    max_workers=int(os.environ.get("ENDURANCE_WORKERS", "50")),
    keep_done=KEEP_SECONDS,
    keep_dead=KEEP_SECONDS,
    keep_events=KEEP_SECONDS,
)


ran = {"noop": 0}
"""Tasks that this process has run."""


@queue.task
async def noop(n: int) -> None:
    """The smallest handler."""
    ran["noop"] += 1


@queue.task
async def work(n: int) -> str:
    return "x" * (n % 500)


@queue.task(max_attempts=3, retry_delay=0.05)
async def flaky(n: int, ctx: Context) -> int:
    if ctx.attempt == 1:
        raise ConnectionError(f"attempt {ctx.attempt} of {n}")
    return ctx.attempt


@queue.task(max_attempts=1)
async def doomed(n: int) -> None:
    raise ValueError(f"{n} can never work")


@queue.task
async def rejected(n: int) -> None:
    raise Reject(f"{n} is not wanted")


@queue.task(max_attempts=1, timeout=0.1)
async def late(n: int) -> None:
    await asyncio.sleep(60)


@queue.task(concurrency=2)
async def narrow(n: int) -> None:
    await asyncio.sleep(0.001)


@queue.task(rate="50/s", burst=10)
async def slow_lane(n: int) -> None:
    """Waits at its gate when the rate is used up."""


@queue.task(key_concurrency=1)
async def by_key(n: int) -> None:
    """A limit per key, and always new keys."""


@queue.task(priority="high")
async def child(n: int, ctx: Context) -> int:
    return len(await ctx.parents())


@queue.task
async def steps(n: int, ctx: Context) -> Snooze | int:
    if ctx.saved is None:
        await ctx.save({"n": n})
        return Snooze(0.1, "once more")
    await ctx.progress(0.5, "half")

    async def effect(_: object) -> int:
        return n

    await ctx.once("pay", effect)
    return n


@queue.task(priority="low")
async def endless(n: int) -> None:
    """Runs until it is cancelled."""
    await asyncio.sleep(3600)


@queue.task(isolation="thread")
def threaded(n: int) -> int:
    return n


@queue.task(isolation="process")
def apart(n: int) -> int:
    return n


@queue.task(cron="* * * * *")
async def minutely() -> None:
    """A schedule that fires during the run."""
