"""Celery on Redis with its default prefork pool: one child per core, so a worker is a process tree.

Results are ignored. Its default acknowledges before the task runs, so a crash loses what ran.
"""

from __future__ import annotations

from collections.abc import Sequence

from celery import Celery, group

from proof.bench.probe import KINDS, run
from proof.bench.subject import QueueSubject
from proof.lab.subject import Options, main


class CelerySubject(QueueSubject):
    """One task per kind."""

    def __init__(self, options: Options) -> None:
        """Declare the tasks."""
        super().__init__(options)
        self.app = Celery("bench", broker=options.url)
        self.app.conf.update(
            task_ignore_result=True,
            worker_hijack_root_logger=False,
            broker_connection_retry_on_startup=True,
            task_acks_late=bool(options.variant.get("acks_late")),
        )
        self.tasks = {kind: self.app.task(name=kind)(_handler(kind)) for kind in KINDS}

    def close(self) -> None:
        """Disconnect."""
        self.app.close()

    def enqueue(self, kind: str, arg: int) -> None:
        """One message."""
        self.tasks[kind].delay(arg)

    def enqueue_many(self, kind: str, args: Sequence[int]) -> None:
        """``group``: not a real bulk API, but Celery has no other."""
        group(self.tasks[kind].s(arg) for arg in args).apply_async()

    def work(self) -> None:
        """Until killed."""
        flags = ["--loglevel=WARNING", "--without-gossip", "--without-mingle"]
        if self.options.concurrency:
            flags.append(f"--concurrency={self.options.concurrency}")
        self.app.worker_main(["worker", *flags])


def _handler(kind: str):  # type: ignore[no-untyped-def]
    def handler(arg: int) -> None:
        run(kind, arg)

    return handler


if __name__ == "__main__":
    main(CelerySubject)
