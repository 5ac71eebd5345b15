"""Chancy with its asyncio executor and eager polling (without it: three tasks a second)."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from chancy import Chancy, Job, Queue, Worker

from proof.bench.probe import run_async as handle
from proof.bench.subject import QueueSubject
from proof.lab.subject import main, run_async

BULK = 1_000


async def noop(*, arg: int) -> None:
    """Handler."""
    await handle("noop", arg)


async def cpu(*, arg: int) -> None:
    """Handler."""
    await handle("cpu", arg)


async def stamp(*, arg: int) -> None:
    """Handler."""
    await handle("stamp", arg)


async def slow(*, arg: int) -> None:
    """Handler."""
    await handle("slow", arg)


async def block(*, arg: int) -> None:
    """Handler."""
    await handle("block", arg)


class ChancySubject(QueueSubject):
    """One queue; handlers by their importable names."""

    settles = True

    def _app(self) -> Chancy:
        return Chancy(self.options.url, log=logging.getLogger("chancy.quiet"))

    def _queue(self) -> Queue:
        return Queue(
            "default",
            concurrency=self.options.concurrency or 100,
            executor=Chancy.Executor.Async,
            eager_polling=True,
        )

    def _job(self, kind: str, arg: int) -> Job:
        attempts = 2 if self.options.scenario == "crash" else 1
        name = f"proof.bench.peers.chancy.{kind}"
        return Job(func=name, kwargs={"arg": arg}, max_attempts=attempts)

    async def install(self) -> None:
        """Its schema."""
        async with self._app() as app:
            await app.migrate()

    async def open(self) -> None:
        """Connect."""
        self.app = self._app()
        await self.app.__aenter__()

    async def close(self) -> None:
        """Disconnect."""
        await self.app.__aexit__(None, None, None)

    async def enqueue(self, kind: str, arg: int) -> None:
        """One job."""
        await self.app.push(self._job(kind, arg))

    async def enqueue_many(self, kind: str, args: Sequence[int]) -> None:
        """Its batches, of a thousand."""
        jobs = [self._job(kind, arg) for arg in args]
        async for _ in self.app.push_many(jobs, batch_size=BULK):
            pass

    async def unfinished(self) -> int:
        """Jobs without an end state (it writes ends back once a second)."""
        async with self.app.pool.connection() as conn:
            cursor = await conn.execute(
                "select count(*) from chancy_jobs where state not in ('succeeded', 'failed')"
            )
            row = await cursor.fetchone()
        return int(row[0]) if row else 0

    def work(self) -> None:
        """Until killed."""
        run_async(self._work())

    async def _work(self) -> None:
        async with self._app() as app:
            await app.declare(self._queue(), upsert=True)
            async with Worker(app) as worker:
                await worker.wait_for_shutdown()


if __name__ == "__main__":
    main(ChancySubject)
