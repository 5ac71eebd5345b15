"""Floor: bare asyncpg on PostgreSQL, with a queue of one table and no features.

``variant["overlap"]``: claims and marks run at the same time on two connections.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import asyncpg

from proof.bench.probe import run_async as handle
from proof.bench.subject import QueueSubject
from proof.lab.subject import main, run_async

BATCH = 400
"""As many as Holdfast claims at once."""
BULK = 1_000
SCHEMA = """
create table job (id bigint generated always as identity primary key, kind text not null,
                  arg bigint not null, state smallint not null default 0);
create index job_waiting on job (id) where state = 0;
create index job_unfinished on job (state) where state < 2;
"""
INSERT = "insert into job (kind, arg) values ($1, $2) returning id"
INSERT_NOTIFY = f"with made as ({INSERT}) select pg_notify('job', '') from made"
INSERT_MANY = "insert into job (kind, arg) select $1, unnest($2::bigint[])"
CLAIM = """
update job set state = 1 where id in (
    select id from job where state = 0 order by id limit $1 for update skip locked)
returning id, kind, arg
"""
MARK = "update job set state = 2 where id = any($1::bigint[])"


class PostgresFloor(QueueSubject):
    """Insert; claim 400 with SKIP LOCKED; mark 400 in one statement."""

    settles = True

    async def install(self) -> None:
        """Make the table."""
        conn = await asyncpg.connect(self.options.url)
        await conn.execute(SCHEMA)
        await conn.close()

    async def open(self) -> None:
        """One connection."""
        self.conn = await asyncpg.connect(self.options.url)

    async def close(self) -> None:
        """Close it."""
        await self.conn.close()

    async def enqueue(self, kind: str, arg: int) -> None:
        """One row; a NOTIFY in the same commit only if a worker listens."""
        await self.conn.execute(INSERT_NOTIFY if self._is_heard(kind) else INSERT, kind, arg)

    def _is_heard(self, kind: str) -> bool:
        return kind == "stamp" or self.options.scenario == "idle"

    async def enqueue_many(self, kind: str, args: Sequence[int]) -> None:
        """``unnest``, a thousand rows a statement."""
        for start in range(0, len(args), BULK):
            await self.conn.execute(INSERT_MANY, kind, args[start : start + BULK])
        await self.conn.execute("notify job")

    async def unfinished(self) -> int:
        """Rows that are not marked."""
        return int(await self.conn.fetchval("select count(*) from job where state < 2"))

    def work(self) -> None:
        """Until killed."""
        run_async(self._work())

    async def _work(self) -> None:
        wake = asyncio.Event()
        claimer = await asyncpg.connect(self.options.url)
        await claimer.add_listener("job", lambda *_: wake.set())
        overlap = self.options.variant.get("overlap")
        marker = await asyncpg.connect(self.options.url) if overlap else None
        marking: asyncio.Future[Any] | None = None
        while True:
            wake.clear()
            rows = await claimer.fetch(CLAIM, BATCH)
            for row in rows:
                await handle(row["kind"], row["arg"])
            ids = [row["id"] for row in rows]
            if marker is None:
                if ids:
                    await claimer.execute(MARK, ids)
            else:
                if marking:
                    await marking
                marking = asyncio.ensure_future(marker.execute(MARK, ids)) if ids else None
            if not rows:
                await wake.wait()


if __name__ == "__main__":
    main(PostgresFloor)
