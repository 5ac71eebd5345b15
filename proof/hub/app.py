"""The application of the run. Its handlers write a journal outside the queue: each start and end of a run,
with the fence.

A line is one write, so a killed process leaves complete lines only.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from holdfast import Context, TaskQueue
from proof.hub.plan import LEASE_SECONDS

URL, REDIS, JOURNAL = "HUB_URL", "HUB_REDIS", "HUB_JOURNAL"
DECIDE_SECONDS = 15.0
queue = TaskQueue(
    os.environ.get(URL, "sqlite:///never-opened.db"),
    redis=os.environ.get(REDIS),
    lease_seconds=LEASE_SECONDS,
    base_retry_delay=0.2,
    shutdown_timeout=2.0,
)


class Line(NamedTuple):
    """A run started or ended in a process."""

    word: str
    task_id: str
    fence: int
    pid: int


def _note(word: str, ctx: Context) -> None:
    folder = os.environ[JOURNAL]
    text = f"{word} {ctx.task.id} {ctx.fence} {os.getpid()}\n"
    file = os.open(f"{folder}/{os.getpid()}.journal", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.write(file, text.encode())
    finally:
        os.close(file)


def journal(folder: Path) -> Iterator[Line]:
    """The lines of all processes."""
    for path in folder.glob("*.journal"):
        for text in path.read_text().splitlines():
            word, task_id, fence, pid = text.split()
            yield Line(word, task_id, int(fence), int(pid))


def _end(ctx: Context) -> dict[str, int]:
    _note("end", ctx)
    return {"fence": ctx.fence, "pid": os.getpid()}


@queue.task
async def quick(ctx: Context) -> dict[str, int]:
    _note("start", ctx)
    await asyncio.sleep(0.02)
    return _end(ctx)


@queue.task
async def slow(seconds: float, ctx: Context) -> dict[str, int]:
    _note("start", ctx)
    for part in range(4):
        await ctx.progress(part / 4, "part")
        await asyncio.sleep(seconds / 4)
    await ctx.save({"fence": ctx.fence})
    return _end(ctx)


@queue.task
def in_thread(ctx: Context) -> dict[str, int]:
    _note("start", ctx)
    return _end(ctx)


@queue.task(max_attempts=4)
async def flaky(ctx: Context) -> dict[str, int]:
    _note("start", ctx)
    if ctx.attempt == 1:
        raise ValueError("the first attempt fails")
    return _end(ctx)


@queue.task(max_attempts=1)
async def doomed(ctx: Context) -> None:
    _note("start", ctx)
    raise ValueError("it always fails")


@queue.task
async def asks(ctx: Context) -> dict[str, int]:
    _note("start", ctx)
    await ctx.decide(
        "Go on?", options=["yes", "no"], deadline=DECIDE_SECONDS, default="no", key="go"
    )
    return _end(ctx)
