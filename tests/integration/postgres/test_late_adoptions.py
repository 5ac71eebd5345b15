"""An operator takes over a late result while the rollout counts the end before it.

On PostgreSQL only: with one writer the two are one after the other.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from holdfast.core.command import Evidence, Force, Instruction
from holdfast.core.fleet.rollout.policy import BudgetName, RolloutRequest
from holdfast.core.task import FailureKind, Status
from holdfast.fleet.jobs.job_rows import counts_of
from holdfast.fleet.jobs.planned import Planned
from holdfast.fleet.jobs.planning import plan_step
from holdfast.fleet.jobs.reads import JobReads
from holdfast.fleet.jobs.rows import own
from holdfast.store.postgres import connection as postgres
from holdfast.store.script import Script
from holdfast.store.store import Store
from tests.conformance.fleet.job_support import FleetBench
from tests.integration.postgres.held_support import soon

LENIENT = RolloutRequest(waves=(), max_in_flight=2, budget={BudgetName.LOST: None})


@pytest.fixture
async def connection(pg_dsn: str) -> AsyncIterator[postgres.Connection]:
    made = await postgres.connect(pg_dsn)
    yield made
    made.terminate()


async def test_an_end_that_changes_while_it_is_counted_is_corrected_by_the_next_step(
    store: Store, connection: postgres.Connection
) -> None:
    fleet = FleetBench(store)
    job_id = (await fleet.create(await fleet.add_hosts(2), rollout=LENIENT)).job.id
    await fleet.plan(job_id)
    lost, other = await fleet.queued(job_id)
    await fleet.fail(lost, FailureKind.LOST)
    force = Force("user:ann", Status.COMPLETED, "its host says so", evidence=Evidence(1, "0"))

    async def run(script: Script[Planned]) -> None:
        """The step, with an operator who is quicker than its writes."""
        rows = None
        try:
            while True:
                statement = next(script) if rows is None else script.send(rows)
                if statement.name == own("tally_executions"):
                    await soon(store.apply([Instruction(lost.id, force)]))
                rows = await postgres.execute(connection, statement)
                rows = [] if statement.ahead else rows
        except StopIteration:
            pass

    async with connection.transaction():
        await run(
            plan_step(store._dialect, store.ids, store.now(), job_id=job_id, rules=fleet.rules)
        )
    assert counts_of(await fleet.job(job_id)) == {"lost": 1}
    assert await fleet.pipeline.due_jobs() == [job_id]
    await fleet.plan(job_id)
    await fleet.succeed(other)
    job = await fleet.plan(job_id)
    detail = await JobReads(store, fleet.rules).detail(job_id)
    assert counts_of(job) == detail.kinds == {"succeeded": 2}
    ended = detail.rollout.state.ended
    assert (ended.success, ended.lost, detail.rollout.corrected) == (2, 0, 1)
