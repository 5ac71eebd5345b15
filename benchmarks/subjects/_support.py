"""Shared by the operations: filling a store, starting workers, waiting with a limit."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from benchmarks.subjects._tree import WorkerTree

if TYPE_CHECKING:
    from benchmarks.subjects._probe import Reader
    from benchmarks.subjects._protocol import Subject

Result = dict[str, float | None]
NS = 1e9
POLL = 0.005


async def settle(value: Any) -> Any:
    """Await ``value`` if it can be awaited: methods of a subject may be plain or ``async``."""
    return await value if inspect.isawaitable(value) else value


async def fill(subject: Subject, kind: str, n: int) -> None:
    """Put ``n`` tasks into the store by the fastest way that the queue has."""
    if subject.enqueue_many is not None:
        await settle(subject.enqueue_many(kind, range(n)))
        return
    for number in range(n):
        await settle(subject.enqueue(kind, number))


def workers(subject: Subject, processes: int, concurrency: int = 0) -> WorkerTree:
    """Worker processes of the subject, loaded and waiting for ``go``."""
    options = subject.options.with_concurrency(concurrency)
    return WorkerTree(subject.module, options, processes)


async def until(condition: Callable[[], bool], limit: float, what: str) -> None:
    """Wait for ``condition``; ``what`` names it in the error after ``limit`` seconds."""
    end = time.monotonic() + limit
    while not condition():
        if time.monotonic() > end:
            message = f"waited {limit:.0f} s for {what}"
            raise RuntimeError(message)
        await asyncio.sleep(POLL)


async def until_hits(tree: WorkerTree, reader: Reader, n: int, limit: float) -> None:
    """Wait until ``n`` handlers have finished."""
    end = time.monotonic() + limit
    while (done := reader.count()) < n:
        if not tree.alive() or time.monotonic() > end:
            why = f"{limit:.0f} s passed" if tree.alive() else "a worker died"
            message = f"{why} after {done} of {n} tasks"
            raise RuntimeError(message)
        await asyncio.sleep(POLL)


async def until_settled(subject: Subject, limit: float) -> int:
    """Wait until the store shows nothing unfinished; return when (``monotonic_ns``)."""
    end = time.monotonic() + limit
    while left := await settle(subject.unfinished()):
        if time.monotonic() > end:
            message = f"store still shows {left} unfinished tasks"
            raise RuntimeError(message)
        await asyncio.sleep(POLL)
    return time.monotonic_ns()
