"""What simpler designs of a fleet get wrong, each through the calls that users make, on every store.

The signature of webhooks is tested over HTTP: `tests/integration/gateway/test_fleet_signed.py`.
"""

from __future__ import annotations

import asyncio

import pytest

from holdfast.core.fleet.approvals.approval import Person
from holdfast.core.fleet.commands import retry_rule
from holdfast.core.fleet.commands.retry_rule import RetryRule
from holdfast.core.fleet.model import SLOT, ApprovalState, JobStatus, OutboxKind
from holdfast.core.fleet.status import shown
from holdfast.core.task import Status
from holdfast.errors import HoldfastError, IdempotencyConflict
from holdfast.fleet.agents.agents import Agents
from holdfast.fleet.blocks.blocks import Blocks, NewBlock
from holdfast.fleet.jobs.approvals import Approvals
from holdfast.fleet.jobs.outbox import CLAIM_SECONDS, Outbox
from holdfast.queue.by import By
from holdfast.store.script import call, one
from holdfast.store.store import Store
from tests.backends import Bench
from tests.conformance.fleet.agent_support import (
    TestAgent,
    accept,
    enrol,
    exited,
    get_execution,
    get_task,
    later,
    running,
    slot_of,
)
from tests.conformance.fleet.job_support import FleetBench
from tests.conformance.fleet.support import BY, PROJECT
from tests.statements import query

APPROVER = frozenset({"role:approver"})
BOB = Person("user:bob", APPROVER)
YES = By("user:bob", "change 118")


class World(FleetBench):
    """A host with an agent, and jobs on it."""

    agent: TestAgent

    async def open(self) -> World:
        agents = Agents(self.store, self.rules)
        self.agent = TestAgent(agents, await enrol(agents, self.store, "web-1"))
        return self

    async def job_of(self, command_type: str = "exec", **fields: object) -> tuple[str, str]:
        """A job that was planned, and its execution."""
        command = {} if command_type == "noop" else {"command": "true"}
        job = (await self.create(["web-1"], command_type=command_type, **{**command, **fields})).job
        await self.plan(job.id)
        [execution] = await self.executions(job.id)
        return job.id, execution.task_id

    async def started(self, execution: str) -> int:
        """The agent takes the execution and starts it. Returns the token."""
        [offer] = (await self.agent.sync()).offers
        assert offer.execution == execution
        if not offer.go:
            assert (await self.agent.sync(**accept(execution, offer.token))).go
        await self.agent.sync(**running(execution, offer.token))
        return offer.token


async def test_two_deliveries_at_once_are_one_job_and_another_body_is_an_error(
    shared_bench: Bench,
) -> None:
    """Not: SELECT, then INSERT."""
    fleets = [FleetBench(await shared_bench.open()) for _ in range(3)]
    names = await fleets[0].add_hosts(2)
    made = await asyncio.gather(
        *(fleet.create(names, external_id="deploy-42") for fleet in fleets for _ in range(5))
    )
    assert len({created.job.id for created in made}) == 1
    assert [created.created for created in made].count(True) == 1
    with pytest.raises(IdempotencyConflict):
        await fleets[0].create(names[:1], external_id="deploy-42")


async def test_the_slot_of_a_host_is_a_row_that_every_process_sees(shared_bench: Bench) -> None:
    """Not: an advisory lock on `hash(host_id)`, which differs by process and ends with the session."""
    store, other = await shared_bench.open(), await shared_bench.open()
    world = await World(store).open()
    _, execution = await world.job_of()
    token = await world.started(execution)
    assert await slot_of(store, world.agent.host_id) == (token, execution)
    resource = f"host:{world.agent.host_id}"
    [row] = await query(other, "holdfast.fleet.agents:read_slots", resources=[resource])
    assert (row[0], row[1], row[2]) == (SLOT + world.agent.host_id, token, execution)


async def test_a_host_runs_one_execution_at_a_time(store: Store) -> None:
    world = await World(store).open()
    _, first = await world.job_of()
    _, second = await world.job_of()
    token = await world.started(first)
    assert not (await world.agent.sync(**running(first, token))).offers
    answer = await world.agent.sync(results=[exited(first, token)])
    assert [(offer.execution, offer.token) for offer in answer.offers] == [(second, token + 1)]


async def test_a_busy_host_spends_no_attempt(bench: Bench, store: Store) -> None:
    """Not: a retry, which ends FAILED though nothing ran."""
    world = await World(store).open()
    _, first = await world.job_of()
    _, second = await world.job_of("restart")
    token = await world.started(first)
    for _ in range(10):
        later(bench, 20.0)
        await world.agent.sync(**running(first, token))
        await store.sweep()
    waiting = await get_task(store, second)
    assert (waiting.status, waiting.attempts) == (Status.QUEUED, 0)
    await world.agent.sync(results=[exited(first, token)])
    assert (await get_task(store, second)).status is Status.RUNNING


async def test_a_running_execution_has_a_lease_and_a_late_result_changes_no_status(
    bench: Bench, store: Store
) -> None:
    """Not: RUNNING for ever, and a final write by id alone."""
    world = await World(store).open()
    _, execution = await world.job_of()
    token = await world.started(execution)
    assert (await get_task(store, execution)).lease_until is not None
    later(bench, world.rules.lease_seconds + 1)
    await store.sweep()
    later(bench, world.rules.lost_after_seconds + 1)
    await store.sweep()
    lost = await get_task(store, execution)
    assert lost.status is Status.FAILED
    await world.agent.sync(results=[exited(execution, token)])
    assert await get_task(store, execution) == lost
    assert (await get_execution(store, execution)).late_json is not None, "it is kept beside"


@pytest.mark.parametrize(
    ("command_type", "status", "attempts"),
    [("exec", Status.FAILED, 1), ("restart", Status.QUEUED, 1)],
)
async def test_a_timeout_is_repeated_only_if_the_command_may_run_twice(
    store: Store, command_type: str, status: Status, attempts: int
) -> None:
    """Not: a retry after every TimeoutError."""
    world = await World(store).open()
    job_id, execution = await world.job_of(command_type)
    token = await world.started(execution)
    result = exited(execution, token, exit_code=None, signal=9, timed_out=True)
    await world.agent.sync(results=[result])
    task = await get_task(store, execution)
    assert (task.status, task.attempts) == (status, attempts)
    if status is Status.FAILED:
        seen = shown(task, await get_execution(store, execution), await world.job(job_id))
        assert (seen.status, seen.kind) == ("TIMEOUT", "timeout_exec")


async def test_an_offer_without_a_go_is_no_start_and_costs_nothing(
    bench: Bench, store: Store
) -> None:
    world = await World(store).open()
    _, execution = await world.job_of()
    assert len((await world.agent.sync()).offers) == 1
    later(bench, world.rules.lease_seconds + 1)
    await store.sweep()
    task = await get_task(store, execution)
    assert (task.status, task.attempts) == (Status.QUEUED, 0)


async def test_what_no_rule_names_needs_an_approval_and_starts_nothing(store: Store) -> None:
    """Not: `approval_state` NULL, which lets everything pass."""
    fleet = FleetBench(store)
    names = await fleet.add_hosts(2)
    job = (await fleet.create(names, command_type="shell", command="true")).job
    assert job.approval_state is ApprovalState.WAIT_APPROVAL
    for _ in range(3):
        await fleet.publish()
        await fleet.plan(job.id)
    assert await fleet.statuses(job.id) == {"blocked": 2}
    with pytest.raises(Exception, match=r"(?i)not.null"):
        await store.run(
            lambda *_: one(
                call(
                    "written:UPDATE holdfast_job SET approval_state = NULL WHERE id = :id",
                    id=job.id,
                )
            )
        )


async def test_an_approval_that_comes_twice_is_one_plan(store: Store) -> None:
    """Not: a second outbox entry with each call."""
    fleet = FleetBench(store)
    names = await fleet.add_hosts(2)
    job = (await fleet.create(names, command_type="shell", command="true")).job
    approvals = Approvals(store, fleet.rules, fleet.bus)
    with pytest.raises(HoldfastError):
        await approvals.approve(job.id, Person(BY.actor, APPROVER), BY)
    for _ in range(3):
        await approvals.approve(job.id, BOB, YES)
    assert len(await Outbox(store, "test").claim(OutboxKind.PLAN_JOB)) == 1


async def test_an_entry_of_the_outbox_has_one_publisher_and_none_is_lost(
    bench: Bench, store: Store
) -> None:
    """Not: every publisher sends it; not: QUEUED first, then a send that is lost with its process."""
    fleet = FleetBench(store)
    job = (await fleet.create(await fleet.add_hosts(1))).job
    claims = [await Outbox(store, name).claim(OutboxKind.PLAN_JOB) for name in ("a", "b")]
    assert [len(entries) for entries in claims] == [1, 0]
    later(bench, CLAIM_SECONDS)  # the first one died before it sent anything
    await fleet.publish()
    assert (await fleet.job(job.id)).status is JobStatus.RUNNING


async def test_a_block_that_comes_after_the_plan_keeps_the_host_from_starting(
    store: Store,
) -> None:
    """Not: a check before the start, with a gap between the two."""
    world = await World(store).open()
    job_id, execution = await world.job_of()
    await Blocks(store).add(PROJECT, NewBlock(host="web-1", reason="disk swap"), BY)
    assert not (await world.agent.sync()).offers
    task = await get_task(store, execution)
    seen = shown(task, await get_execution(store, execution), await world.job(job_id))
    assert (seen.status, seen.kind) == ("BLOCKED", "blocked")


async def test_a_rejection_cancels_what_has_not_started(store: Store) -> None:
    fleet = FleetBench(store)
    names = await fleet.add_hosts(2)
    job = (await fleet.create(names, command_type="shell", command="true")).job
    await Approvals(store, fleet.rules, fleet.bus).reject(job.id, BOB, YES)
    assert await fleet.statuses(job.id) == {"aborted": 2}
    assert (await fleet.plan(job.id)).status is JobStatus.REJECTED


def test_pauses_are_spread_below_the_cap_and_the_same_in_every_process() -> None:
    """Not: `min(MAX, BASE * 2^n) + random(0..1)`: at the cap, 1,000 hosts come back within a second."""
    rule = RetryRule(max_retries=9, base_seconds=1.0, cap_seconds=60.0)
    pauses = [retry_rule.delay_seconds(rule, f"execution-{n}", 9) for n in range(1_000)]
    assert all(30.0 <= pause <= 60.0 for pause in pauses)
    assert max(pauses) - min(pauses) > 25.0
    assert pauses == [retry_rule.delay_seconds(rule, f"execution-{n}", 9) for n in range(1_000)]
