"""How a queue is measured: throughput, latency, depth, memory, a crash. The code is the same for every
subject."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, replace
from typing import TYPE_CHECKING, Any

from proof.bench import pickup
from proof.bench.probe import Reader
from proof.lab.processes import WorkerTree
from proof.lab.subject import probe_folder, settle

if TYPE_CHECKING:
    from proof.bench.subject import QueueSubject

Result = dict[str, float | None]
NS = 1e9
POLL = 0.005
IDLE_SETTLE_SECONDS = 5.0
WARM_UP = 20
"""First tasks of a latency measurement, which are not counted."""
LEFT = 1_000
"""Tasks of a shallow queue that still wait when its drain was measured."""
SKIP = 200
"""The first handlers of a drain are not counted, because their claim started before the clock."""


async def enqueue_one(subject: QueueSubject, n: int) -> Result:
    """One caller enqueues tasks one after another, each acknowledged before the next."""
    enqueue = subject.enqueue
    started = time.perf_counter()
    if inspect.iscoroutinefunction(enqueue):
        for number in range(n):
            await enqueue("noop", number)
    else:
        for number in range(n):
            enqueue("noop", number)
    return {"rate": n / (time.perf_counter() - started)}


async def enqueue_concurrent(subject: QueueSubject, n: int, callers: int) -> Result:
    """``callers`` at once (tasks of one loop, or threads), each enqueues one task after another."""
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


async def enqueue_bulk(subject: QueueSubject, n: int) -> Result:
    """All tasks through the bulk API."""
    assert subject.enqueue_many is not None, "no bulk API"
    started = time.perf_counter()
    await settle(subject.enqueue_many("noop", range(n)))
    return {"rate": n / (time.perf_counter() - started)}


async def drain(
    subject: QueueSubject, n: int, processes: int = 1, kind: str = "noop", limit: float = 120
) -> Result:
    """``n`` tasks wait; workers start; the clock runs from the first handler to the last.

    ``settled_rate`` ends when the store has no unfinished task. ``from_go_rate`` starts when the loaded
    worker processes are released, so it includes their connects."""
    reader = Reader(probe_folder())
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


async def cpu_scaling(subject: QueueSubject, n: int, limit: float = 120) -> Result:
    """Handlers that compute: one worker process, then two."""
    one = await drain(subject, n, 1, "cpu", limit)
    two = await drain(subject, n, 2, "cpu", limit)
    assert one["rate"] is not None
    assert two["rate"] is not None
    return {"one": one["rate"], "two": two["rate"], "ratio": two["rate"] / one["rate"]}


async def latency(
    subject: QueueSubject, n: int, interval: float, *, apart: bool = False
) -> dict[str, Any]:
    """Idle worker, a task every ``interval`` seconds: from before the enqueue to the handler. ``apart``:
    in another process, even if the subject prefers one process. With all samples: ms, ms of them in the
    enqueue, ms of CPU stolen."""
    reader = Reader(probe_folder())
    reader.clear()
    tree = None
    if subject.embedded and not apart:
        await settle(subject.start_embedded())
    else:
        tree = workers(subject, 1)
        tree.go()
    try:
        sent = []
        for number in range(n + WARM_UP):
            stolen, at = pickup.stolen_ms(pickup.STAT.read_text()), time.monotonic_ns()
            await settle(subject.enqueue("stamp", at))
            acknowledged_at = time.monotonic_ns()
            await asyncio.sleep(interval)
            stolen = pickup.stolen_ms(pickup.STAT.read_text()) - stolen
            sent.append(pickup.Sent(at, acknowledged_at, stolen))
            if number < WARM_UP:
                warm = number + 1
                await until(lambda warm=warm: reader.count() >= warm, 30, "the worker")  # type: ignore[misc]
        await until(lambda: reader.count() >= n + WARM_UP, 30, "the last task")
        found = pickup.samples(sent, reader.hits())[WARM_UP:]
    finally:
        if tree is None:
            await settle(subject.stop_embedded())
        else:
            tree.kill()
    return pickup.figures(found) | {"samples": [list(astuple(sample)) for sample in found]}


async def idle(subject: QueueSubject, seconds: float) -> Result:
    """The cost of an idle worker that has run one task before."""
    reader = Reader(probe_folder())
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


async def depth_fill(subject: QueueSubject, waiting: int) -> Result:
    """Only fills: the harness lets the store rest before the drain."""
    await fill(subject, "noop", waiting)
    return {}


async def depth_shallow(subject: QueueSubject, window: int) -> Result:
    """Drain rate until `LEFT` tasks are left."""
    return {"shallow": await _drain_window(subject, window)}


async def depth_deep(subject: QueueSubject, window: int) -> Result:
    """Drain rate over the first tasks of a deep queue."""
    return {"deep": await _drain_window(subject, window)}


async def _drain_window(subject: QueueSubject, window: int) -> float:
    """The rate of ``window`` tasks in a new worker, after the first `SKIP`. More tasks wait behind them: at
    the end of a queue the last completions would come after the window, and not be counted."""
    reader = Reader(probe_folder())
    reader.clear()
    tree = workers(subject, 1)
    try:
        tree.go()
        await until_hits(tree, reader, window + SKIP, 120)
        hits = reader.hits()
    finally:
        tree.kill()
    return window / (hits[SKIP + window - 1].at - hits[SKIP - 1].at) * NS


async def memory(subject: QueueSubject, n: int, slots: int = 10) -> Result:
    """Resident memory of a worker whose slots are all busy: nothing waiting, then ``n`` waiting."""
    reader = Reader(probe_folder())
    reader.clear()
    tree = workers(subject, 1, slots)
    try:
        tree.go()
        for number in range(slots):
            await settle(subject.enqueue("block", number))
        await until(lambda: len(reader.runs()) >= slots, 30, "busy slots")
        await asyncio.sleep(1)
        before = tree.rss_bytes()
        await fill(subject, "noop", n)
        await asyncio.sleep(3)
        after = tree.rss_bytes()
    finally:
        tree.kill()
    return {
        "rss_mb": before / 2**20,
        "rss_full_mb": after / 2**20,
        "bytes_per_task": max(0, after - before) / n,
    }


async def crash(subject: QueueSubject, n: int, limit: float) -> Result:
    """``n`` tasks of three seconds run; SIGKILL to the whole worker tree; restart at once."""
    reader = Reader(probe_folder())
    reader.clear()
    tree = workers(subject, 1, n)
    try:
        tree.go()
        for number in range(n):
            await settle(subject.enqueue("slow", number))
        await until(lambda: len(reader.runs()) >= n, 30, "running tasks")
        killed = tree.kill()
        tree = workers(subject, 1, n)
        tree.go()
        with contextlib.suppress(RuntimeError):
            await until(lambda: len(_ended(reader)) >= n, limit, "all tasks")
        await asyncio.sleep(1)
    finally:
        tree.kill()
    again: dict[int, int] = {}
    for run in reader.runs():
        if run.word == "start" and run.at > killed:
            again.setdefault(run.number, run.at)
    ended = [run.number for run in reader.runs() if run.word == "end"]
    return {
        "finished": len(set(ended)),
        "twice": len(ended) - len(set(ended)),
        "seconds": (max(again.values()) - killed) / NS if len(again) == n else None,
    }


def _ended(reader: Reader) -> set[int]:
    return {run.number for run in reader.runs() if run.word == "end"}


async def fill(subject: QueueSubject, kind: str, n: int) -> None:
    """Enqueues ``n`` tasks in the fastest way that the queue has."""
    if subject.enqueue_many is not None:
        await settle(subject.enqueue_many(kind, range(n)))
        return
    for number in range(n):
        await settle(subject.enqueue(kind, number))


def workers(subject: QueueSubject, processes: int, concurrency: int = 0) -> WorkerTree:
    """Worker processes of the subject, loaded and waiting for ``go``."""
    options = replace(subject.options, concurrency=concurrency)
    return WorkerTree(subject.module, options.as_dict(), processes)


async def until(condition: Callable[[], bool], limit: float, what: str) -> None:
    """Waits for ``condition``; ``what`` names it in the error after ``limit`` seconds."""
    end = time.monotonic() + limit
    while not condition():
        if time.monotonic() > end:
            message = f"waited {limit:.0f} s for {what}"
            raise RuntimeError(message)
        await asyncio.sleep(POLL)


async def until_hits(tree: WorkerTree, reader: Reader, n: int, limit: float) -> None:
    """Waits until ``n`` handlers have finished."""
    end = time.monotonic() + limit
    while (done := reader.count()) < n:
        if not tree.alive() or time.monotonic() > end:
            why = f"{limit:.0f} s passed" if tree.alive() else "a worker died"
            message = f"{why} after {done} of {n} tasks"
            raise RuntimeError(message)
        await asyncio.sleep(POLL)


async def until_settled(subject: QueueSubject, limit: float) -> int:
    """Waits until the store has no unfinished task; returns when (``monotonic_ns``)."""
    end = time.monotonic() + limit
    while left := await settle(subject.unfinished()):
        if time.monotonic() > end:
            message = f"store still shows {left} unfinished tasks"
            raise RuntimeError(message)
        await asyncio.sleep(POLL)
    return time.monotonic_ns()


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
