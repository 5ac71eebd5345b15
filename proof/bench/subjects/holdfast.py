"""Holdfast under test, the same on both stores: default settings, 100 workers where throughput is
measured."""

from __future__ import annotations

import asyncio
import mmap
from collections.abc import Sequence
from typing import Any

from holdfast import TaskQueue
from proof.bench.probe import KINDS, run_async as handle
from proof.bench.subject import QueueSubject
from proof.lab.subject import Options, main, probe_folder, run_async

BULK = 5_000
"""The list that suits it on PostgreSQL: more parts of it are prepared while the server inserts others."""
WORKERS = 100
CALLS = "calls"
"""The file in which an idle worker counts its store calls."""


class HoldfastSubject(QueueSubject):
    """A producer queue without workers, and workers that run until killed."""

    settles = True

    def __init__(self, options: Options) -> None:
        """Not connected yet."""
        super().__init__(options)
        self.embedded = options.url.startswith("sqlite")  # as an embedded queue is used
        self.queue = self._make()
        self.worker: TaskQueue | None = None

    def _make(self) -> TaskQueue:
        return self._with_handlers(TaskQueue(self.options.url, **self._settings()))

    def _settings(self) -> dict[str, Any]:
        return {"max_workers": self.options.concurrency or WORKERS, "task_timeout": None}

    def _with_handlers(self, queue: TaskQueue) -> TaskQueue:
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
        """Lists of `BULK`."""
        for start in range(0, len(args), BULK):
            part = args[start : start + BULK]
            await self.queue.enqueue_many([{"type": kind, "payload": {"arg": n}} for n in part])

    async def unfinished(self) -> int:
        """From the counters."""
        return await self.queue.get_queue_size()

    def work(self) -> None:
        """Until killed."""
        run_async(self._work())

    def calls(self) -> int:
        """The count of the worker process."""
        file = probe_folder() / CALLS
        return int.from_bytes(file.read_bytes(), "little") if file.exists() else 0

    async def _work(self) -> None:
        await self.queue.start()
        if self.options.scenario == "idle":
            _count_calls((await self.queue.open()).store._driver)
        await asyncio.Event().wait()

    async def start_embedded(self) -> None:
        """Starts workers in the producer's process."""
        await self.queue.start()

    async def stop_embedded(self) -> None:
        """The producer's close stops them."""


def _count_calls(driver: Any) -> None:
    """Counts the store calls in a file that the producer can read."""
    with (probe_folder() / CALLS).open("w+b") as file:
        file.truncate(8)
        counter = mmap.mmap(file.fileno(), 8)

    def counting(verb: Any) -> Any:
        def counted(*args: Any, **options: Any) -> Any:
            counter[:] = (int.from_bytes(counter[:], "little") + 1).to_bytes(8, "little")
            return verb(*args, **options)

        return counted

    for name in ("write", "write_one", "call", "read"):
        setattr(driver, name, counting(getattr(driver, name)))


def _handler(kind: str):  # type: ignore[no-untyped-def]
    async def handler(arg: int) -> None:
        await handle(kind, arg)

    return handler


if __name__ == "__main__":
    main(HoldfastSubject)
