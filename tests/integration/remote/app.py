"""An application with handlers of all kinds, which a remote worker runs."""

from __future__ import annotations

import asyncio
import os
from collections import defaultdict

from holdfast import BlockingContext, Context, TaskQueue

queue = TaskQueue("sqlite:///never-opened.db", lease_seconds=6.0, base_retry_delay=0.05)


@queue.task
async def add(a: int, b: int) -> int:
    return a + b


@queue.task(concurrency=2)
async def limited(n: int) -> int:
    return n


@queue.task
def in_thread(n: int, ctx: Context) -> int:
    ctx.progress(0.5, "half")  # type: ignore[unused-coroutine]
    ctx.save({"n": n})  # type: ignore[unused-coroutine]
    return n * 2


@queue.task(isolation="process")
def in_process(n: int) -> list[int]:
    return [n * 3, os.getpid()]


@queue.task(max_attempts=3)
async def second_time(ctx: Context) -> list[object]:
    """Fails once, and finds its checkpoint."""
    if ctx.attempt == 1:
        await ctx.save({"seen": 1})
        raise ValueError("not yet")
    return [ctx.attempt, ctx.saved]


@queue.task
async def with_steps(ctx: Context) -> list[object]:
    made: list[str] = []

    async def effect(lease: object) -> str:
        made.append("once")
        return "done"

    answers = [await ctx.once("pay", effect), await ctx.once("pay", effect)]
    parents = await ctx.parents()
    return [answers, made, [parent.result for parent in parents.values()]]


@queue.task(max_attempts=1)
async def in_transaction(ctx: Context) -> None:
    async def effect(lease: object) -> None:
        return None

    await ctx.once("step", effect, tx=object())


@queue.task
async def asks(ctx: Context) -> object:
    decision = await ctx.decide("Deploy?", options=["yes", "no"], key="deploy")
    return decision.choice


marks: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
"""What handlers of this process have done."""


@queue.task(timeout=None)
async def forever(name: str) -> None:
    """Says that it runs, and that it was cancelled."""
    marks[f"{name} started"].set()
    try:
        await asyncio.Event().wait()
    finally:
        marks[f"{name} cancelled"].set()


@queue.task(timeout=None)
async def until_marked(name: str, ctx: Context) -> int:
    """Ends when the test sets its mark. Returns its fence."""
    marks[f"{name} started {ctx.fence}"].set()
    await marks[f"{name} may end"].wait()
    return ctx.fence


@queue.task
async def large(size: int) -> str:
    return "\n" * size


@queue.task
async def follow_up(ctx: Context, n: int) -> int:
    return await (await ctx.enqueue(add, n, b=1)).result(30)


@queue.task
def follow_up_thread(ctx: BlockingContext, n: int) -> int:
    return ctx.enqueue(add, n, b=1).result(30)


@queue.task(isolation="process")
def follow_up_process(ctx: BlockingContext, n: int) -> int:
    return ctx.enqueue(add, n, b=1).result(30)
