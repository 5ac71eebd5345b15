"""Handlers of every kind, middleware and hooks that write down where they run."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from holdfast import BlockingContext, Context, TaskQueue, WorkerState


class Database:
    """An object of a worker."""

    def __init__(self) -> None:
        self.is_open = True


def place() -> str:
    if os.environ.get("HOLDFAST_AROUND") != str(os.getpid()):
        return "process"
    return "loop" if threading.current_thread() is threading.main_thread() else "thread"


async def in_loop(ctx: Context) -> list[str]:
    return [f"handler in {place()}"]


def in_thread(ctx: BlockingContext) -> list[str]:
    return [f"handler in {place()}"]


def in_process(ctx: BlockingContext) -> list[str]:
    return [f"handler in {place()}"]


async def opens(ctx: Context) -> bool:
    return ctx.state[Database].is_open


def opens_in_thread(ctx: BlockingContext) -> bool:
    return ctx.state[Database].is_open


def opens_in_process(ctx: BlockingContext) -> bool:
    return ctx.state[Database].is_open


async def outer(ctx: Context, call_next: Callable[[], Awaitable[Any]]) -> Any:
    return ["outer", *await call_next()]


async def inner(ctx: Context, call_next: Callable[[], Awaitable[Any]]) -> Any:
    return [f"inner in {place()}", *await call_next()]


def plain(ctx: BlockingContext, call_next: Callable[[], Any]) -> Any:
    return [f"plain in {place()}", *call_next()]


def wrapped(queue: TaskQueue) -> TaskQueue:
    """The queue with a type of each kind, and middleware around them."""
    os.environ["HOLDFAST_AROUND"] = str(os.getpid())
    queue.middleware(outer)
    queue.middleware(inner)
    queue.middleware(plain)
    queue.task(name="loop")(in_loop)
    queue.task(name="thread")(in_thread)
    queue.task(name="process", isolation="process")(in_process)
    return queue


SEEN = {
    "loop": ["outer", "inner in loop", "handler in loop"],
    "thread": ["outer", "inner in loop", "plain in thread", "handler in thread"],
    "process": ["outer", "inner in loop", "plain in process", "handler in process"],
}


def hooked(queue: TaskQueue, said: list[str]) -> TaskQueue:
    """The queue with types that use the state of the worker."""

    @queue.on_start
    async def database() -> AsyncIterator[Database]:
        made = Database()
        said.append("opened")
        yield made
        said.append("closed")
        made.is_open = False

    @queue.on_start
    def number() -> int:
        said.append("plain start")
        return 7

    @queue.on_stop
    async def last(state: WorkerState) -> None:
        said.append(f"stop with {state[int]}, open {state[Database].is_open}")

    queue.task(name="loop")(opens)
    queue.task(name="thread")(opens_in_thread)
    return queue


async def results(queue: TaskQueue, names: tuple[str, ...]) -> dict[str, Any]:
    handles = {name: await queue.enqueue(name, {}) for name in names}
    ended = await asyncio.gather(*[handle.result(60) for handle in handles.values()])
    return dict(zip(handles, ended, strict=True))
