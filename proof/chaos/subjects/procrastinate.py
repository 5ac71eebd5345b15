"""Procrastinate with its documented recipe for stalled jobs: a periodic task that retries what workers
without a heartbeat held."""

from __future__ import annotations

from collections.abc import Sequence

from procrastinate import App, JobContext, PsycopgConnector

from proof.chaos import journal
from proof.chaos.plan import LEASE_SECONDS, SLOTS
from proof.chaos.subject import Chaotic
from proof.lab.subject import Options, main, run_async


class ProcrastinateChaos(Chaotic):
    """Its async connector with the stock pool."""

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self.app = App(connector=PsycopgConnector(conninfo=options.url))
        self.job = self.app.task(name="job", pass_context=True)(_handler)
        rescue = self.app.task(name="rescue", queueing_lock="rescue", pass_context=True)(_rescue)
        self.app.periodic(cron="* * * * * */2")(rescue)  # seconds come last

    async def install(self) -> None:
        app = App(connector=PsycopgConnector(conninfo=self.options.url))
        async with app.open_async():
            await app.schema_manager.apply_schema_async()

    async def open(self) -> None:
        await self.app.open_async()

    async def close(self) -> None:
        await self.app.close_async()

    async def put(self, job: int, ms: int) -> None:
        await self.job.defer_async(job=job, ms=ms)

    async def put_many(self, jobs: Sequence[int], ms: int) -> None:
        await self.job.batch_defer_async(*({"job": job, "ms": ms} for job in jobs))

    async def unfinished(self) -> int:
        return await self._count(
            "select count(*) as n from procrastinate_jobs"
            " where task_name = 'job' and status in ('todo', 'doing')"
        )

    async def ended_twice(self) -> int:
        return await self._count(
            "select count(*) as n from (select job_id from procrastinate_events e"
            " join procrastinate_jobs j on j.id = e.job_id"
            " where e.type = 'succeeded' and j.task_name = 'job'"
            " group by job_id having count(*) > 1) twice"
        )

    async def more(self) -> dict[str, int]:
        failed = await self._count(
            "select count(*) as n from procrastinate_jobs"
            " where task_name = 'job' and status = 'failed'"
        )
        return {"dead_letters": failed}

    async def _count(self, question: str) -> int:
        return int((await self.app.connector.execute_query_one_async(question))["n"])

    def work(self) -> None:
        run_async(self._work())

    async def _work(self) -> None:
        async with self.app.open_async():
            await self.app.run_worker_async(
                concurrency=SLOTS,
                install_signal_handlers=False,
                update_heartbeat_interval=LEASE_SECONDS / 3,
                stalled_worker_timeout=LEASE_SECONDS,
            )


async def _handler(context: JobContext, job: int, ms: int) -> None:
    await journal.run_async(job, ms, context.job.id, context.job.attempts)


async def _rescue(context: JobContext, timestamp: int) -> None:
    manager = context.app.job_manager
    for job in await manager.get_stalled_jobs(seconds_since_heartbeat=LEASE_SECONDS):
        await manager.retry_job(job)


if __name__ == "__main__":
    main(ProcrastinateChaos)
