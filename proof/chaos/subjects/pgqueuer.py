"""PgQueuer as `pgq run --restart-on-failure --shutdown-on-listener-failure` runs it: with the supervisor that
its own command line offers, in the worker's process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta

import asyncpg
import pgqueuer
from pgqueuer import AsyncpgDriver, AsyncpgPoolDriver, PgQueuer, Queries
from pgqueuer.models import Job

from proof.chaos import journal
from proof.chaos.plan import LEASE_SECONDS, SLOTS
from proof.chaos.subject import Chaotic
from proof.lab.subject import main, run_async


class PgQueuerChaos(Chaotic):
    """The producer uses a pool, which replaces broken connections."""

    async def install(self) -> None:
        conn = await asyncpg.connect(self.options.url)
        await Queries(AsyncpgDriver(conn)).install()
        await conn.close()

    async def open(self) -> None:
        self.pool = await asyncpg.create_pool(self.options.url, min_size=1, max_size=8)
        self.queries = Queries(AsyncpgPoolDriver(self.pool))

    async def close(self) -> None:
        await self.pool.close()

    async def put(self, job: int, ms: int) -> None:
        await self.queries.enqueue("job", b"%d %d" % (job, ms))

    async def put_many(self, jobs: Sequence[int], ms: int) -> None:
        bodies: list[bytes | None] = [b"%d %d" % (job, ms) for job in jobs]
        await self.queries.enqueue(["job"] * len(bodies), bodies, [0] * len(bodies))

    async def unfinished(self) -> int:
        return int(await self.pool.fetchval("select count(*) from pgqueuer"))

    async def ended_twice(self) -> int:
        return int(
            await self.pool.fetchval(
                "select count(*) from (select job_id from pgqueuer_log where status = 'successful'"
                " group by job_id having count(*) > 1) twice"
            )
        )

    def work(self) -> None:
        run_async(self._work())

    async def _work(self) -> None:
        await pgqueuer.run(
            self._factory,
            batch_size=SLOTS // 2,
            max_concurrent_tasks=SLOTS,
            dequeue_timeout=timedelta(seconds=LEASE_SECONDS / 3),
            heartbeat_timeout=timedelta(seconds=LEASE_SECONDS),
            restart_on_failure=True,
            restart_delay=timedelta(seconds=1),
            shutdown_on_listener_failure=True,
        )

    @asynccontextmanager
    async def _factory(self) -> AsyncIterator[PgQueuer]:
        conn = await asyncpg.connect(self.options.url)
        try:
            pgq = PgQueuer(AsyncpgDriver(conn))
            pgq.entrypoint("job")(_handler)
            yield pgq
        finally:
            await conn.close()


async def _handler(job: Job) -> None:
    number, ms = (job.payload or b"0 0").split()
    await journal.run_async(int(number), int(ms), job.id)


if __name__ == "__main__":
    main(PgQueuerChaos)
