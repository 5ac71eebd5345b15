"""A process that dies at each statement of each act on a job: nothing half done, and a repeat goes on.

A crash before the commit loses the transaction; one after it loses the answer. Both are followed by a repeat.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

import pytest

from holdfast.core.fleet.approvals.approval import Person
from holdfast.core.fleet.model import ApprovalState, JobStatus
from holdfast.core.fleet.rollout.policy import BudgetName, RolloutRequest
from holdfast.fleet.blocks.blocks import Blocks, NewBlock
from holdfast.fleet.jobs import deadlines
from holdfast.fleet.jobs.approvals import Approvals
from holdfast.fleet.jobs.control import JobControl
from holdfast.fleet.jobs.job_rows import counts_of
from holdfast.queue.by import By
from holdfast.store.script import Script
from holdfast.store.store import Store
from tests.conformance.fleet.job_support import FleetBench
from tests.conformance.fleet.support import BY, PROJECT, events
from tests.conformance.tasks.helpers import check_counters, statuses

STATEMENTS_MAX: Final = 60
BOB = Person("user:bob", frozenset({"role:approver"}))
Act = Callable[[FleetBench], Awaitable[Any]]


class Crash(Exception):
    """The process dies."""


class DyingStore:
    """A store whose process dies before statement number `at` of its transactions, or before the commit."""

    def __init__(self, store: Store, at: int) -> None:
        self._store = store
        self._at = at
        self._done = 0
        self.has_crashed = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def run(self, make: Any, **options: Any) -> Any:
        return await self._store.run(lambda *given: self._cut(make(*given)), **options)

    def _cut(self, script: Script[Any]) -> Script[Any]:
        answer: Any = None
        while True:
            try:
                statement = script.send(answer)
            except StopIteration as end:
                self._count()
                return end.value
            self._count()
            answer = yield statement

    def _count(self) -> None:
        if self._done == self._at:
            self.has_crashed = True
            raise Crash
        self._done += 1


async def seen(fleet: FleetBench) -> object:
    """All that a half-done act could leave behind."""
    names = ("job", "execution", "approval", "vote", "outbox")
    tables = [await fleet.rows(table) for table in names]
    return await statuses(fleet.store), tables, len(await events(fleet.store))


async def with_crashes(fleet: FleetBench, act: Act, *, whole: bool = True) -> Any:
    """Dies at every statement of the act, then lets it through. `whole`: the act is one transaction, so that
    a crash leaves nothing."""
    for at in range(STATEMENTS_MAX):
        before = await seen(fleet)
        dying = DyingStore(fleet.store, at)
        try:
            answer = await act(FleetBench(dying, fleet.rules))  # type: ignore[arg-type]
        except Crash:
            if whole:
                assert await seen(fleet) == before, f"statement {at} left something behind"
            continue
        assert not dying.has_crashed
        assert at > 2
        return answer
    raise AssertionError("the act has more statements than expected")


async def test_creation(store: Store) -> None:
    fleet = FleetBench(store)
    names = await fleet.add_hosts(3)

    async def act(other: FleetBench) -> Any:
        return await other.create(names, external_id="one")

    created = await with_crashes(fleet, act)
    assert created.created
    again = await fleet.create(names, external_id="one")
    assert (again.job.id, again.created) == (created.job.id, False)
    await check_counters(store)


@pytest.mark.parametrize("verdict", ["approve", "reject"])
async def test_votes(store: Store, verdict: str) -> None:
    fleet = FleetBench(store)
    names = await fleet.add_hosts(3)
    job = (await fleet.create(names, command_type="shell", command="true")).job

    async def act(other: FleetBench) -> Any:
        approvals = Approvals(other.store, other.rules, other.bus)
        return await getattr(approvals, verdict)(job.id, BOB, By("user:bob", "decided"))

    await with_crashes(fleet, act)
    if verdict == "approve":
        assert (await act(fleet)).is_repeat
        assert (await fleet.job(job.id)).approval_state is ApprovalState.APPROVED
    else:
        assert await fleet.outcomes(job.id) == {"rejected": 3}
    assert len(await events(store, f"job.{verdict}")) == 1
    await check_counters(store)


async def test_planning_until_the_end(store: Store) -> None:
    """Each step is a transaction; a planner that dies between them is followed by another one."""
    fleet = FleetBench(store)
    names = await fleet.add_hosts(5)
    rollout = RolloutRequest(waves=(1, "rest"), max_in_flight=2, budget={BudgetName.FAILED: None})
    job_id = (await fleet.create(names, rollout=rollout)).job.id
    for _ in range(20):
        planned = await with_crashes(
            fleet, lambda other: other.pipeline.plan_job(job_id), whole=False
        )
        assert planned.job is not None
        if planned.job.finished_at is not None:
            break
        for task in await fleet.queued(job_id):
            await fleet.succeed(task)
    job = await fleet.job(job_id)
    assert (job.status, counts_of(job)) == (JobStatus.SUCCESS, {"succeeded": 5})
    assert len(await events(store, "job.finished")) == 1
    assert len(await events(store, "job.wave")) == 2
    await check_counters(store)


@pytest.mark.parametrize("mode", ["drain", "kill"])
async def test_aborts(store: Store, mode: str) -> None:
    fleet = FleetBench(store)
    job_id = (await fleet.create(await fleet.add_hosts(4))).job.id
    await fleet.plan(job_id)
    first, *_ = await fleet.queued(job_id)
    await fleet.start(first)

    async def act(other: FleetBench) -> Any:
        control = JobControl(other.store, other.rules, other.bus)
        return await control.abort(job_id, BY, mode=mode)

    await with_crashes(fleet, act)
    assert (await act(fleet)).is_repeat
    assert len(await events(store, "job.halted")) == 1
    assert len(await events(store, "intervention.issued")) == (1 if mode == "kill" else 0)
    await check_counters(store)


async def test_releases(store: Store) -> None:
    fleet = FleetBench(store)
    names = await fleet.add_hosts(2)
    held = await Blocks(store).add(
        PROJECT, NewBlock(selector="*", reason="freeze", effect="hold"), BY
    )
    job_id = (await fleet.create(names)).job.id
    await fleet.plan(job_id)
    await Blocks(store).lift(held.id, BY)
    release = partial(deadlines._release, job_id=job_id, holder=held.id, rules=fleet.rules)
    released = await with_crashes(fleet, lambda other: other.store.run(release))
    assert released.count == 2
    assert (await fleet.run_out(job_id)).status is JobStatus.SUCCESS
