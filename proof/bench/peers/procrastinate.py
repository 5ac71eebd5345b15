"""Procrastinate. Concurrency 1 is its default and its fastest here (``variant["concurrency"]``).

It has no built-in recovery: for the crash scenario its documented stalled-jobs recipe runs every
ten seconds.
"""

from __future__ import annotations

from collections.abc import Sequence

import procrastinate
from procrastinate import App, JobContext, PsycopgConnector

from proof.bench.probe import KINDS, run_async as handle
from proof.bench.subject import QueueSubject
from proof.lab.subject import main, run_async

BULK = 1_000


class ProcrastinateSubject(QueueSubject):
    """Its async connector with the stock pool."""

    settles = True

    def _app(self) -> App:
        app = App(connector=PsycopgConnector(conninfo=self.options.url))
        self.tasks = {kind: app.task(name=kind)(_handler(kind)) for kind in KINDS}
        if self.options.scenario == "crash":
            app.periodic(cron="* * * * * */10")(
                app.task(name="rescue", queueing_lock="rescue", pass_context=True)(_rescue)
            )
        return app

    async def install(self) -> None:
        """Its schema."""
        async with self._app().open_async() as app:
            await app.schema_manager.apply_schema_async()

    async def open(self) -> None:
        """Connect."""
        self.app = self._app()
        await self.app.open_async()

    async def close(self) -> None:
        """Disconnect."""
        await self.app.close_async()

    async def enqueue(self, kind: str, arg: int) -> None:
        """One job."""
        await self.tasks[kind].defer_async(arg=arg)

    async def enqueue_many(self, kind: str, args: Sequence[int]) -> None:
        """Batches of a thousand."""
        for start in range(0, len(args), BULK):
            part = [{"arg": arg} for arg in args[start : start + BULK]]
            await self.tasks[kind].batch_defer_async(*part)

    async def unfinished(self) -> int:
        """Jobs to do or being done."""
        found = await self.app.connector.execute_query_one_async(
            "select count(*) as n from procrastinate_jobs where status in ('todo', 'doing')"
        )
        return int(found["n"])

    def work(self) -> None:
        """Until killed."""
        run_async(self._work())

    async def _work(self) -> None:
        wanted = self.options.concurrency or int(self.options.variant.get("concurrency", 1))
        async with self._app().open_async() as app:
            await app.run_worker_async(concurrency=wanted, install_signal_handlers=False)


def _handler(kind: str):  # type: ignore[no-untyped-def]
    async def handler(arg: int) -> None:
        await handle(kind, arg)

    return handler


async def _rescue(context: JobContext, timestamp: int) -> None:
    manager: procrastinate.manager.JobManager = context.app.job_manager
    for job in await manager.get_stalled_jobs():
        await manager.retry_job(job)


if __name__ == "__main__":
    main(ProcrastinateSubject)
