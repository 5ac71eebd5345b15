"""How throughput and latency are measured, the same code for every subject."""

from __future__ import annotations

import asyncio
import inspect
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from benchmarks.subjects._ops_state import crash, depth_deep, depth_fill, depth_shallow, memory
from benchmarks.subjects._probe import Reader, folder
from benchmarks.subjects._support import (
    NS,
    Result,
    fill,
    settle,
    until,
    until_hits,
    until_settled,
    workers,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from benchmarks.subjects._protocol import Subject

IDLE_SETTLE_SECONDS = 5.0
WARM_UP = 20
"""First tasks of a latency measurement, not counted."""


async def enqueue_one(subject: Subject, n: int) -> Result:
    """One caller, one task after another, each acknowledged before the next."""
    enqueue = subject.enqueue
    started = time.perf_counter()
    if inspect.iscoroutinefunction(enqueue):
        for number in range(n):
            await enqueue("noop", number)
    else:
        for number in range(n):
            enqueue("noop", number)
    return {"rate": n / (time.perf_counter() - started)}


async def enqueue_concurrent(subject: Subject, n: int, callers: int) -> Result:
    """``callers`` at once (tasks of one loop, or threads), each one task after another."""
    enqueue, each = subject.enqueue, n // callers

    async def caller(base: int) -> None:
        for number in range(base, base + each):
            await enqueue("noop", number)

    def blocking_caller(base: int) -> None:
        for number in range(base, base + each):
            enqueue("noop", number)

    bases = [caller_no * each for caller_no in range(callers)]
    started = time.perf_counter()
    if inspect.iscoroutinefunction(enqueue):
        await asyncio.gather(*map(caller, bases))
    else:
        with ThreadPoolExecutor(callers) as pool:
            list(pool.map(blocking_caller, bases))
    return {"rate": each * callers / (time.perf_counter() - started)}


async def enqueue_bulk(subject: Subject, n: int) -> Result:
    """All at once by the bulk API."""
    assert subject.enqueue_many is not None, "no bulk API"
    started = time.perf_counter()
    await settle(subject.enqueue_many("noop", range(n)))
    return {"rate": n / (time.perf_counter() - started)}


async def drain(
    subject: Subject, n: int, processes: int = 1, kind: str = "noop", limit: float = 120
) -> Result:
    """``n`` tasks wait; workers start; the clock runs from the first handler to the last.

    ``settled_rate`` ends when the store holds no unfinished task, ``from_go_rate`` starts when the
    loaded worker processes were released (so it contains their connecting).
    """
    reader = Reader(folder())
    reader.clear()
    await fill(subject, kind, n)
    tree = workers(subject, processes)
    try:
        loaded = tree.cpu_seconds()
        go = tree.go()
        await until_hits(tree, reader, n, limit)
        cpu = tree.cpu_seconds() - loaded
        settled = await until_settled(subject, limit) if subject.settles else None
        hits = reader.hits()
    finally:
        tree.kill()
    first, last = hits[0].at, hits[-1].at
    return {
        "rate": n / (last - first) * NS,
        "settled_rate": n / (max(settled, last) - first) * NS if settled else None,
        "from_go_rate": n / (last - go) * NS,
        "start_ms": (first - go) / 1e6,
        "worker_cpu": cpu / (last - go) * NS * 100,
    }


async def cpu_scaling(subject: Subject, n: int, limit: float = 120) -> Result:
    """Handlers that compute: one worker process, then two, back to back."""
    one = await drain(subject, n, 1, "cpu", limit)
    two = await drain(subject, n, 2, "cpu", limit)
    assert one["rate"] is not None
    assert two["rate"] is not None
    return {"one": one["rate"], "two": two["rate"], "ratio": two["rate"] / one["rate"]}


async def latency(subject: Subject, n: int, interval: float, *, apart: bool = False) -> Result:
    """Idle worker, a task every ``interval`` seconds: from before the enqueue to the handler. ``apart``: in
    another process, whatever the subject prefers."""
    reader = Reader(folder())
    reader.clear()
    tree = None
    if subject.embedded and not apart:
        await settle(subject.start_embedded())
    else:
        tree = workers(subject, 1)
        tree.go()
    try:
        for number in range(n + WARM_UP):
            await settle(subject.enqueue("stamp", time.monotonic_ns()))
            await asyncio.sleep(interval)
            if number < WARM_UP:
                warm = number + 1
                await until(lambda warm=warm: reader.count() >= warm, 30, "the worker")  # type: ignore[misc]
        await until(lambda: reader.count() >= n + WARM_UP, 30, "the last task")
        values = sorted(hit.value / 1e6 for hit in reader.hits()[WARM_UP:])
    finally:
        if tree is None:
            await settle(subject.stop_embedded())
        else:
            tree.kill()
    assert len(values) == n, f"{len(values)} of {n} tasks ran"
    at = [values[min(n - 1, int(n * share))] for share in (0.5, 0.95, 0.99)]
    return {"p50": at[0], "p95": at[1], "p99": at[2]}


async def idle(subject: Subject, seconds: float) -> Result:
    """What a worker with nothing to do costs, after it has run one task and settled."""
    reader = Reader(folder())
    reader.clear()
    tree = workers(subject, 1)
    try:
        tree.go()
        await settle(subject.enqueue("noop", 0))
        await until_hits(tree, reader, 1, 30)
        await asyncio.sleep(IDLE_SETTLE_SECONDS)
        before, calls = tree.cpu_seconds(), await settle(subject.calls())
        await asyncio.sleep(seconds)
        spent, made = tree.cpu_seconds() - before, await settle(subject.calls())
    finally:
        tree.kill()
    known = calls is not None and made is not None
    return {"cpu": spent / seconds * 100, "calls": (made - calls) / seconds if known else None}


OPERATIONS: dict[str, Callable[..., Coroutine[Any, Any, Result]]] = {
    "enqueue_one": enqueue_one,
    "enqueue_concurrent": enqueue_concurrent,
    "enqueue_bulk": enqueue_bulk,
    "drain": drain,
    "cpu_scaling": cpu_scaling,
    "latency": latency,
    "idle": idle,
    "depth_shallow": depth_shallow,
    "depth_fill": depth_fill,
    "depth_deep": depth_deep,
    "memory": memory,
    "crash": crash,
}
