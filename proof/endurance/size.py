"""Bytes of a finished task in the database: full, pruned, and full again."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from holdfast import TaskQueue
from proof.endurance.tables import megabytes, tables
from proof.lab.databases import database, query
from proof.lab.report import say

BATCH = 1_000
SHAPES = {"in batches of 1,000": BATCH, "one by one": 1}


def run(*, root: Path, postgres: Any, stores: tuple[str, ...], tasks: int) -> dict[str, Any]:
    """Bytes per finished task, by store and by how the tasks were enqueued."""
    rows = []
    for store in stores:
        for n, (shape, batch) in enumerate(SHAPES.items()):
            file = f"sqlite:///{root / f'size{n}.db'}"
            with database(postgres, "size") if store == "postgres" else nullcontext(file) as url:
                row = {"store": store, "shape": shape, **asyncio.run(_measure(url, tasks, batch))}
            say(f"size {store}, {shape}: {row['bytes_per_task']} bytes a task")
            rows.append(row)
    return {"tasks": tasks, "rows": rows}


async def _measure(url: str, tasks: int, batch: int) -> dict[str, Any]:
    empty = await _prepare(url)
    await _fill(url, tasks, batch)
    full = await asyncio.to_thread(megabytes, url)
    parts = {} if url.startswith("sqlite") else await asyncio.to_thread(_parts, url, tasks)
    gone = await _prune(url)
    pruned = await asyncio.to_thread(megabytes, url)
    await _fill(url, tasks, batch)
    again = await asyncio.to_thread(megabytes, url)
    return {
        "bytes_per_task": round((full - empty) * 1e6 / tasks),
        **parts,
        "pruned_rows": gone,
        "bytes_per_task_after_pruning": round((pruned - empty) * 1e6 / tasks),
        "bytes_per_task_full_again": round((again - empty) * 1e6 / tasks),
    }


async def _prepare(url: str) -> float:
    """Creates the tables; returns their size."""
    queue = TaskQueue(url)
    await queue.open()
    await queue.stop()
    return await asyncio.to_thread(megabytes, url)


async def _fill(url: str, tasks: int, batch: int) -> None:
    """Enqueues tasks and runs them to their end."""
    queue = TaskQueue(url, max_workers=100)
    done = asyncio.Event()
    left = tasks

    @queue.task
    async def work(n: int, note: str) -> int:
        nonlocal left
        left -= 1
        if not left:
            done.set()
        return n

    async with queue:
        for start in range(0, tasks, BATCH):
            numbers = range(start, start + BATCH)
            requests = [work.request(n, "a payload of some size") for n in numbers]
            if batch > 1:
                await queue.enqueue_many(requests)
            else:
                for request in requests:
                    await queue.enqueue(request["type"], request["payload"])
        await done.wait()
    await asyncio.to_thread(_settle, url)


async def _prune(url: str) -> int:
    """Prunes all ended tasks, then vacuums."""
    queue = TaskQueue(url)
    store = (await queue.open()).store
    gone, now = 0, store.now() + 1
    while more := await store.prune(before=now, dead_before=now, feed_before=now, limit=BATCH):
        gone += more
    await queue.stop()
    await asyncio.to_thread(_settle, url)
    return gone


def _settle(url: str) -> None:
    """Checkpoint and vacuum, which the database would do later."""
    if url.startswith("sqlite"):
        query(url, "PRAGMA wal_checkpoint(TRUNCATE)")
    else:
        query(url, "VACUUM")


def _parts(url: str, tasks: int) -> dict[str, int]:
    found = tables(url)
    return {
        f"{name.removeprefix('holdfast_')}_{part}": round(found[name][part] / tasks)
        for name in ("holdfast_task", "holdfast_feed")
        for part in ("bytes", "index_bytes")
    }
