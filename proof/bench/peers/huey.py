"""Huey on SQLite (fsync as SQLite's default: FULL), Redis or PostgreSQL; four threads per worker."""

from __future__ import annotations

import logging

from huey import PostgresHuey, RedisHuey, SqliteHuey

from proof.bench.probe import KINDS, run
from proof.bench.subject import QueueSubject
from proof.lab.subject import main


class HueySubject(QueueSubject):
    """The URL selects the store."""

    def __init__(self, options) -> None:  # type: ignore[no-untyped-def]
        """Make the instance; it connects when used."""
        super().__init__(options)
        logging.getLogger("huey").setLevel(logging.WARNING)
        url = options.url
        self.settles = url.startswith("postgresql")
        if url.startswith("sqlite"):
            self.huey = SqliteHuey(filename=options.path)
        elif url.startswith("redis"):
            self.huey = RedisHuey(url=url)
        else:
            self.huey = PostgresHuey(dsn=url)
        self.tasks = {kind: self.huey.task(name=kind)(_handler(kind)) for kind in KINDS}

    def enqueue(self, kind: str, arg: int) -> None:
        """One task."""
        self.tasks[kind](arg)

    def unfinished(self) -> int:
        """A task leaves the store when it is claimed, so this counts only waiting tasks."""
        return self.huey.pending_count()

    def work(self) -> None:
        """Until killed."""
        threads = self.options.concurrency or 4
        self.huey.create_consumer(workers=threads, periodic=False).run()


def _handler(kind: str):  # type: ignore[no-untyped-def]
    def handler(arg: int) -> None:
        run(kind, arg)

    return handler


if __name__ == "__main__":
    main(HueySubject)
