"""PgQueuer on asyncpg. ``variant["batch"]`` is its one knob: 10 by default, 100 when tuned."""

from __future__ import annotations

from collections.abc import Sequence

import asyncpg
from pgqueuer import AsyncpgDriver, PgQueuer, Queries
from pgqueuer.models import Job

from proof.bench.probe import KINDS, run_async as handle
from proof.bench.subject import QueueSubject
from proof.lab.subject import main, run_async

BULK = 1_000


class PgQueuerSubject(QueueSubject):
    """Its own Queries API for producers, ``PgQueuer.run`` for the worker."""

    settles = True

    async def install(self) -> None:
        """Its schema."""
        conn = await asyncpg.connect(self.options.url)
        await Queries(AsyncpgDriver(conn)).install()
        await conn.close()

    async def open(self) -> None:
        """One connection; its driver makes callers take turns."""
        self.conn = await asyncpg.connect(self.options.url)
        self.queries = Queries(AsyncpgDriver(self.conn))

    async def close(self) -> None:
        """Close it."""
        await self.conn.close()

    async def enqueue(self, kind: str, arg: int) -> None:
        """One job."""
        await self.queries.enqueue(kind, b"%d" % arg)

    async def enqueue_many(self, kind: str, args: Sequence[int]) -> None:
        """Lists of a thousand."""
        for start in range(0, len(args), BULK):
            part = [b"%d" % arg for arg in args[start : start + BULK]]
            await self.queries.enqueue([kind] * len(part), part, [0] * len(part))

    async def unfinished(self) -> int:
        """Finished jobs leave the table for its log."""
        return int(await self.conn.fetchval("select count(*) from pgqueuer"))

    def work(self) -> None:
        """Until killed."""
        run_async(self._work())

    async def _work(self) -> None:
        pgq = PgQueuer(AsyncpgDriver(await asyncpg.connect(self.options.url)))
        for kind in KINDS:
            pgq.entrypoint(kind)(_handler(kind))
        batch = int(self.options.variant.get("batch", 10))
        if self.options.concurrency:
            batch = max(1, self.options.concurrency // 2)
        limit = self.options.concurrency or None
        await pgq.run(batch_size=batch, max_concurrent_tasks=limit)


def _handler(kind: str):  # type: ignore[no-untyped-def]
    async def handler(job: Job) -> None:
        await handle(kind, int(job.payload or 0))

    return handler


if __name__ == "__main__":
    main(PgQueuerSubject)
