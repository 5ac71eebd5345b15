"""Holdfast under test, the same on both stores: default settings, 100 workers where speed is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from benchmarks.subjects._probe import KINDS, run_async as handle
from benchmarks.subjects._protocol import Options, Subject, run_async
from holdfast import TaskQueue

BULK = 1_000
WORKERS = 100


class HoldfastSubject(Subject):
    """A producer queue without workers, and workers that run until killed."""

    settles = True
    embedded = False

    def __init__(self, options: Options) -> None:
        """Not connected yet."""
        super().__init__(options)
        self.queue = self._make()
        self.worker: TaskQueue | None = None

    def _make(self) -> TaskQueue:
        workers = self.options.concurrency or WORKERS
        queue = TaskQueue(self.options.url, max_workers=workers, task_timeout=None)
        for kind in KINDS:
            queue.task(_handler(kind), name=kind)
        return queue

    async def open(self) -> None:
        """Connects and migrates."""
        await self.queue.open()

    async def close(self) -> None:
        """Disconnects."""
        await self.queue.stop()

    async def enqueue(self, kind: str, arg: int) -> None:
        """One task, acknowledged after its commit."""
        await self.queue.enqueue(kind, {"arg": arg})

    async def enqueue_many(self, kind: str, args: Sequence[int]) -> None:
        """Lists of a thousand."""
        for start in range(0, len(args), BULK):
            part = args[start : start + BULK]
            await self.queue.enqueue_many([{"type": kind, "payload": {"arg": n}} for n in part])

    async def unfinished(self) -> int:
        """From the counters."""
        return await self.queue.get_queue_size()

    def work(self) -> None:
        """Until killed."""
        run_async(self._work())

    async def _work(self) -> None:
        await self.queue.start()
        await asyncio.Event().wait()

    async def start_embedded(self) -> None:
        """Workers beside the producer."""
        await self.queue.start()

    async def stop_embedded(self) -> None:
        """The producer's close stops them."""


def _handler(kind: str):  # type: ignore[no-untyped-def]
    async def handler(arg: int) -> None:
        await handle(kind, arg)

    return handler
