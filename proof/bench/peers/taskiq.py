"""Taskiq with its Redis stream broker, a hundred tasks at once (its default)."""

from __future__ import annotations

import logging

from taskiq.api import run_receiver_task
from taskiq_redis import RedisStreamBroker

from proof.bench.probe import KINDS, run_async as handle
from proof.bench.subject import QueueSubject
from proof.lab.subject import Options, main, run_async


class TaskiqSubject(QueueSubject):
    """One task per kind; the group reads the stream from its beginning."""

    def __init__(self, options: Options) -> None:
        """Declare the tasks."""
        super().__init__(options)
        logging.getLogger("taskiq").setLevel(logging.WARNING)
        self.broker = RedisStreamBroker(options.url, consumer_id="0")
        self.tasks = {kind: self.broker.task(task_name=kind)(_handler(kind)) for kind in KINDS}

    async def open(self) -> None:
        """Connect."""
        await self.broker.startup()

    async def close(self) -> None:
        """Disconnect."""
        await self.broker.shutdown()

    async def enqueue(self, kind: str, arg: int) -> None:
        """One message."""
        await self.tasks[kind].kiq(arg)

    def work(self) -> None:
        """Until killed."""
        limit = self.options.concurrency or 100
        self.broker.is_worker_process = True
        run_async(run_receiver_task(self.broker, max_async_tasks=limit, run_startup=True))


def _handler(kind: str):  # type: ignore[no-untyped-def]
    async def handler(arg: int) -> None:
        await handle(kind, arg)

    return handler


if __name__ == "__main__":
    main(TaskiqSubject)
