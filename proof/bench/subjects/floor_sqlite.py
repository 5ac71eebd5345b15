"""Floor: bare SQLite in WAL mode with ``synchronous=FULL``, one table, no features.

Uses apsw like Holdfast, so that both have the same SQLite.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import apsw

from proof.bench.probe import run
from proof.bench.subject import QueueSubject
from proof.lab.subject import main

BATCH = 400
"""As many as Holdfast claims at once."""
BULK = 1_000
SCHEMA = """
create table if not exists job (id integer primary key, kind text not null, arg integer not null,
                                state integer not null default 0);
create index if not exists job_waiting on job (id) where state = 0;
"""
CLAIM = """
update job set state = 1 where id in (select id from job where state = 0 order by id limit ?)
returning id, kind, arg
"""


def connect(path: str) -> apsw.Connection:
    """WAL, FULL, default checkpoints."""
    conn = apsw.Connection(path)
    conn.set_busy_timeout(5_000)
    conn.execute("pragma journal_mode = wal; pragma synchronous = full")
    return conn


class SqliteFloor(QueueSubject):
    """Insert; claim 400; mark 400; one commit each."""

    settles = True

    def install(self) -> None:
        """Make the table."""
        connect(self.options.path).execute(SCHEMA)

    def open(self) -> None:
        """One connection."""
        self.conn = connect(self.options.path)

    def enqueue(self, kind: str, arg: int) -> None:
        """One row, one commit."""
        self.conn.execute("insert into job (kind, arg) values (?, ?)", (kind, arg))

    def enqueue_many(self, kind: str, args: Sequence[int]) -> None:
        """A thousand rows a commit."""
        for start in range(0, len(args), BULK):
            with self.conn:
                rows = ((kind, arg) for arg in args[start : start + BULK])
                self.conn.executemany("insert into job (kind, arg) values (?, ?)", rows)

    def unfinished(self) -> int:
        """Rows that are not marked."""
        found = self.conn.execute("select count(*) from job where state < 2").fetchone()
        return int(found[0]) if found else 0

    def work(self) -> None:
        """Until killed."""
        conn = connect(self.options.path)
        while True:
            rows: list[tuple[Any, ...]] = conn.execute(CLAIM, (BATCH,)).fetchall()
            for _, kind, arg in rows:
                run(str(kind), int(arg))
            with conn:
                conn.executemany("update job set state = 2 where id = ?", [row[:1] for row in rows])
            if not rows:
                time.sleep(0.001)


if __name__ == "__main__":
    main(SqliteFloor)
