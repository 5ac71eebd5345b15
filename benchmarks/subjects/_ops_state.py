"""How depth, memory and a crash are measured, the same code for every subject."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

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
    from benchmarks.subjects._protocol import Subject

BURST = 1_000
BURST_SKIP = 200
"""The first handlers of a burst are not counted: the claim before them cannot be."""


async def depth_shallow(subject: Subject, bursts: int) -> Result:
    """Drain rate with 1,000 waiting: bursts into an idle worker, the first one not counted."""
    reader = Reader(folder())
    reader.clear()
    tree = workers(subject, 1)
    spans = []
    try:
        tree.go()
        for burst in range(bursts + 1):
            await fill(subject, "noop", BURST)
            await until_hits(tree, reader, (burst + 1) * BURST, 60)
            if subject.settles:
                await until_settled(subject, 60)
            hits = reader.hits()[burst * BURST :]
            spans.append(hits[-1].at - hits[BURST_SKIP - 1].at)
    finally:
        tree.kill()
    return {"shallow": (BURST - BURST_SKIP) * bursts / sum(spans[1:]) * NS}


async def depth_fill(subject: Subject, waiting: int) -> Result:
    """Only fill: the harness lets the store rest before :func:`depth_deep`."""
    await fill(subject, "noop", waiting)
    return {}


async def depth_deep(subject: Subject, window: int) -> Result:
    """Drain rate over the first ``window`` tasks of a deep queue, in a worker that starts now."""
    reader = Reader(folder())
    reader.clear()
    tree = workers(subject, 1)
    try:
        tree.go()
        await until_hits(tree, reader, window + BURST_SKIP, 120)
        hits = reader.hits()
    finally:
        tree.kill()
    span = hits[BURST_SKIP + window - 1].at - hits[BURST_SKIP - 1].at
    return {"deep": window / span * NS}


async def memory(subject: Subject, n: int, slots: int = 10) -> Result:
    """Resident memory of a worker whose slots are all busy: nothing waiting, then ``n`` waiting."""
    reader = Reader(folder())
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


async def crash(subject: Subject, n: int, limit: float) -> Result:
    """``n`` tasks of three seconds run; SIGKILL to the whole worker tree; restart at once."""
    reader = Reader(folder())
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
