"""Blocks and jobs: what they refuse ends, what they hold comes back as the block says."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from holdfast.clock import VirtualClock
from holdfast.core.command import Command, Instruction, Pause, Resume
from holdfast.core.fleet.approvals.approval import Person
from holdfast.core.fleet.model import ApprovalState, Block, JobStatus
from holdfast.core.fleet.rollout.policy import HostOrder, RolloutRequest
from holdfast.core.transition import Transition
from holdfast.fleet.blocks.blocks import Blocks, NewBlock
from holdfast.fleet.jobs import deadlines
from holdfast.fleet.jobs.approvals import Approvals
from holdfast.fleet.jobs.deadlines import Deadlines
from holdfast.fleet.jobs.job_rows import counts_of
from holdfast.queue.by import By
from holdfast.store.store import Store
from tests.conformance.fleet.job_support import FleetBench
from tests.conformance.fleet.support import BY, PROJECT
from tests.conformance.tasks.helpers import check_counters


async def block(store: Store, host: str = "web-001", **fields: Any) -> Block:
    given = {"host": host, "reason": "disk swap"} | fields
    return await Blocks(store).add(PROJECT, NewBlock(**given), BY)


def deadlines_of(fleet: FleetBench) -> Deadlines:
    return Deadlines(fleet.store, fleet.rules, fleet.bus)


async def test_a_refused_host_ends_as_blocked_with_the_reason(store: Store) -> None:
    fleet = FleetBench(store)
    names = await fleet.add_hosts(3)
    await block(store)
    created = await fleet.create(names)
    assert [(x.host, x.reason, x.held) for x in created.excluded] == [("web-001", "block", False)]
    assert "disk swap" in created.excluded[0].detail
    job = await fleet.run_out(created.job.id)
    assert (job.status, counts_of(job)) == (JobStatus.PARTIAL, {"blocked": 1, "succeeded": 2})
    [ended] = [e for e in await fleet.executions(job.id) if e.host == "web-001"]
    assert "disk swap" in ended.detail
    await check_counters(store)


async def test_a_block_of_another_command_type_does_not_count(store: Store) -> None:
    fleet = FleetBench(store)
    names = await fleet.add_hosts(1)
    await block(store, command_type="restart*")
    assert (await fleet.run_out((await fleet.create(names)).job.id)).status is JobStatus.SUCCESS


async def test_a_held_host_waits_out_of_the_window_and_comes_back(
    store: Store, clock: VirtualClock
) -> None:
    fleet = FleetBench(store)
    names = await fleet.add_hosts(3)
    held = await block(store, effect="hold")
    rollout = RolloutRequest(waves=(), max_in_flight=1, order=HostOrder.NAME)
    job_id = (await fleet.create(names, rollout=rollout)).job.id
    await fleet.plan(job_id)
    clock.pause(2.0)
    await fleet.hear_agents()
    await fleet.plan(job_id)
    tasks = await fleet.tasks(job_id)
    by_host = {e.host: tasks[e.task_id] for e in await fleet.executions(job_id)}
    assert by_host["web-001"].held_by is not None
    assert by_host["web-001"].held_by.startswith(f"block:{held.id}")
    assert by_host["web-002"].status.value == "queued"
    assert await deadlines_of(fleet).release_held() == 0
    await Blocks(store).lift(held.id, BY)
    assert await deadlines_of(fleet).release_held() == 1
    assert await deadlines_of(fleet).release_held() == 0
    assert (await fleet.run_out(job_id)).status is JobStatus.SUCCESS


@pytest.mark.parametrize(("on_lift", "kind"), [("drop", "skipped"), ("requeue", "succeeded")])
async def test_the_block_says_what_becomes_of_what_it_held(
    store: Store, on_lift: str, kind: str
) -> None:
    fleet = FleetBench(store)
    names = await fleet.add_hosts(1)
    held = await block(store, effect="hold", on_lift=on_lift)
    job_id = (await fleet.create(names)).job.id
    await fleet.plan(job_id)
    await Blocks(store).lift(held.id, BY)
    await deadlines_of(fleet).release_held()
    assert counts_of(await fleet.run_out(job_id)) == {kind: 1}


async def test_a_held_host_expires_with_its_job(store: Store, clock: VirtualClock) -> None:
    fleet = FleetBench(store)
    names = await fleet.add_hosts(1)
    await block(store, effect="hold")
    job_id = (await fleet.create(names, not_after_seconds=60.0)).job.id
    await fleet.plan(job_id)
    clock.pause(61.0)
    assert counts_of(await fleet.plan(job_id)) == {"expired": 1}


async def test_a_block_that_expires_lets_go(store: Store, clock: VirtualClock) -> None:
    fleet = FleetBench(store)
    names = await fleet.add_hosts(1)
    await block(store, effect="hold", expires_at=store.now() + 30.0)
    job_id = (await fleet.create(names)).job.id
    await fleet.plan(job_id)
    clock.pause(31.0)
    assert await deadlines_of(fleet).release_held() == 1
    assert (await fleet.run_out(job_id)).status is JobStatus.SUCCESS


async def test_what_one_block_lets_go_another_may_hold_or_refuse(store: Store) -> None:
    fleet = FleetBench(store)
    names = await fleet.add_hosts(1)
    first = await block(store, effect="hold")
    job_id = (await fleet.create(names)).job.id
    await fleet.plan(job_id)
    second = await block(store, effect="hold", reason="another")
    await Blocks(store).lift(first.id, BY)
    await deadlines_of(fleet).release_held()
    [execution] = await fleet.executions(job_id)
    assert execution.block_id == second.id
    await block(store, effect="refuse", reason="never")
    await Blocks(store).lift(second.id, BY)
    await deadlines_of(fleet).release_held()
    assert counts_of(await fleet.plan(job_id)) == {"blocked": 1}


async def test_a_block_may_ask_for_another_approval(store: Store) -> None:
    fleet = FleetBench(store)
    names = await fleet.add_hosts(1)
    held = await block(store, effect="hold", on_lift="reapprove")
    job_id = (await fleet.create(names, command_type="shell", command="true")).job.id
    approvals = Approvals(store, fleet.rules, fleet.bus)
    bob = Person("user:bob", frozenset({"role:approver"}))
    await approvals.approve(job_id, bob, By("user:bob", "yes"))
    await fleet.plan(job_id)
    await Blocks(store).lift(held.id, BY)
    await deadlines_of(fleet).release_held()
    job = await fleet.job(job_id)
    assert job.approval_state is ApprovalState.WAIT_APPROVAL
    assert [task.held_by is not None for task in (await fleet.tasks(job_id)).values()] == [True]
    assert await deadlines_of(fleet).release_held() == 0
    await approvals.approve(job_id, bob, By("user:bob", "yes, again"))
    await deadlines_of(fleet).release_held()
    assert (await fleet.run_out(job_id)).status is JobStatus.SUCCESS


BOB = Person("user:bob", frozenset({"role:approver"}))


async def reapproved(fleet: FleetBench, hosts: int) -> tuple[str, str]:
    """An approved job, with all its hosts held by a block that asks again. Returns both ids."""
    names = await fleet.add_hosts(hosts)
    held = await Blocks(fleet.store).add(
        PROJECT,
        NewBlock(selector="*", reason="disk swap", effect="hold", on_lift="reapprove"),
        BY,
    )
    rollout = RolloutRequest(waves=(), max_in_flight=hosts)
    fields: dict[str, Any] = {"command_type": "shell", "command": "true", "rollout": rollout}
    job_id = (await fleet.create(names, **fields)).job.id
    await Approvals(fleet.store, fleet.rules, fleet.bus).approve(job_id, BOB, By("user:bob", "yes"))
    await fleet.plan(job_id)
    return job_id, held.id


async def test_a_block_asks_once_about_more_than_one_batch(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deadlines, "BATCH", 2)
    fleet = FleetBench(store)
    job_id, held = await reapproved(fleet, 5)
    await Blocks(store).lift(held, BY)
    looks = deadlines_of(fleet)
    assert await looks.release_held() == 5
    asked = (await fleet.job(job_id)).approval_id
    await Approvals(store, fleet.rules, fleet.bus).approve(job_id, BOB, By("user:bob", "again"))
    assert [await looks.release_held() for _ in range(4)] == [2, 2, 1, 0]
    job = await fleet.job(job_id)
    assert (job.approval_id, job.approval_state) == (asked, ApprovalState.APPROVED)
    assert (await fleet.run_out(job_id)).status is JobStatus.SUCCESS


async def test_ends_are_counted_while_the_job_waits_for_another_approval(store: Store) -> None:
    """Else a look at jobs with ends would find it again and again."""
    fleet = FleetBench(store)
    names = await fleet.add_hosts(3)
    held = await block(store, effect="hold", on_lift="reapprove")
    rollout = RolloutRequest(waves=(), max_in_flight=2, order=HostOrder.NAME)
    fields: dict[str, Any] = {"command_type": "shell", "command": "true", "rollout": rollout}
    job_id = (await fleet.create(names, **fields)).job.id
    approvals = Approvals(store, fleet.rules, fleet.bus)
    await approvals.approve(job_id, BOB, By("user:bob", "yes"))
    assert (await fleet.plan(job_id)).status is JobStatus.RUNNING
    free = next(task for task in await fleet.queued(job_id) if task.held_by is None)
    await fleet.succeed(free)
    await Blocks(store).lift(held.id, BY)
    await deadlines_of(fleet).release_held()
    job = await fleet.plan(job_id)
    assert (job.status, job.approval_state) == (JobStatus.RUNNING, ApprovalState.WAIT_APPROVAL)
    assert counts_of(job) == {"succeeded": 1}
    assert await fleet.statuses(job_id) == {"completed": 1, "queued": 2}
    assert job_id not in await fleet.pipeline.due_jobs()
    await approvals.approve(job_id, BOB, By("user:bob", "again"))
    await deadlines_of(fleet).release_held()
    assert (await fleet.run_out(job_id)).status is JobStatus.SUCCESS


async def test_a_late_look_of_another_process_does_not_ask_again(store: Store) -> None:
    """It has read what is held before the first one has let it go."""
    fleet = FleetBench(store)
    job_id, held = await reapproved(fleet, 2)
    await Blocks(store).lift(held, BY)
    await deadlines_of(fleet).release_held()
    await Approvals(store, fleet.rules, fleet.bus).approve(job_id, BOB, By("user:bob", "again"))
    late = partial(deadlines._release, job_id=job_id, holder=held, rules=fleet.rules)
    assert (await store.run(late)).count == 0
    assert (await fleet.job(job_id)).approval_state is ApprovalState.APPROVED


async def test_a_window_that_is_in_force_again_lets_nothing_go(store: Store) -> None:
    """It was not when the look began."""
    fleet = FleetBench(store)
    job_id, held = await reapproved(fleet, 2)
    late = partial(deadlines._release, job_id=job_id, holder=held, rules=fleet.rules)
    assert (await store.run(late)).count == 0
    assert (await fleet.job(job_id)).approval_state is ApprovalState.APPROVED


async def test_a_new_block_may_end_what_runs(store: Store) -> None:
    fleet = FleetBench(store)
    names = await fleet.add_hosts(2)
    job_id = (await fleet.create(names)).job.id
    await fleet.plan(job_id)
    runs = {
        e.host: await fleet.start((await fleet.tasks(job_id))[e.task_id])
        for e in await fleet.executions(job_id)
    }
    await block(store, on_running="abort")
    assert await deadlines_of(fleet).stop_blocked() == 1
    assert await deadlines_of(fleet).stop_blocked() == 0
    await fleet.complete(runs["web-002"])
    job = await fleet.plan(job_id)
    assert counts_of(job) == {"cancelled_unconfirmed": 1, "succeeded": 1}


async def test_a_new_block_ends_what_runs_behind_many_open_executions(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deadlines, "LOOK", 3)
    fleet = FleetBench(store)
    names = await fleet.add_hosts(10)
    job_id = (await fleet.create(names, rollout=RolloutRequest(waves=(), max_in_flight=10))).job.id
    await fleet.plan(job_id)
    found = await fleet.executions(job_id)
    tasks = await fleet.tasks(job_id)
    for execution in (found[0], found[-1]):
        await fleet.start(tasks[execution.task_id])
        await block(store, host=execution.host, on_running="abort")
    assert await deadlines_of(fleet).stop_blocked() == 2
    assert await fleet.statuses(job_id) == {"aborted": 2, "queued": 8}


async def test_a_look_for_what_to_end_leaves_other_jobs_alone(store: Store) -> None:
    """It is repeated every second, as long as there is such a block. A job that runs nothing on its hosts is
    not locked."""
    fleet = FleetBench(store)
    names = await fleet.add_hosts(2)
    made = [(await fleet.create([name])).job.id for name in names]
    await block(store, on_running="abort")
    for job_id in made:
        await fleet.plan(job_id)
        for task in await fleet.queued(job_id):
            await fleet.start(task)
    assert await store.read(lambda: deadlines._jobs_to_stop(store.now())) == []


# -- holds of operators ------------------------------------------------------------------------------


async def operate(fleet: FleetBench, task_id: str, command: Command) -> None:
    [ruling] = await fleet.store.apply([Instruction(task_id, command)])
    assert isinstance(ruling, Transition), ruling


@pytest.mark.parametrize("is_operator_first", [True, False])
async def test_the_end_of_a_block_leaves_the_hold_of_an_operator(
    store: Store, clock: VirtualClock, is_operator_first: bool
) -> None:
    """The operator owns what is desired: a block that ends by itself starts nothing that a person holds."""
    fleet = FleetBench(store)
    names = await fleet.add_hosts(1)
    held = await block(store, effect="hold")
    job_id = (await fleet.create(names)).job.id
    [execution] = await fleet.executions(job_id)
    hold = Pause("user:ann", "not this host")
    if is_operator_first:
        await operate(fleet, execution.task_id, hold)
    await fleet.plan(job_id)
    if not is_operator_first:
        await operate(fleet, execution.task_id, hold)
    await Blocks(store).lift(held.id, BY)
    await deadlines_of(fleet).release_held()
    assert await deadlines_of(fleet).release_held() == 0, "the block holds nothing any more"
    task = (await fleet.tasks(job_id))[execution.task_id]
    assert task.held_by == "user:ann: not this host"
    await operate(fleet, execution.task_id, Resume("user:ann"))
    clock.pause(2.0)
    await fleet.hear_agents()
    assert (await fleet.run_out(job_id)).status is JobStatus.SUCCESS


async def test_the_end_of_a_block_leaves_what_runs(store: Store) -> None:
    """It was let go by an operator and has started: it is not skipped."""
    fleet = FleetBench(store)
    names = await fleet.add_hosts(1)
    held = await block(store, effect="hold", on_lift="drop")
    job_id = (await fleet.create(names)).job.id
    await fleet.plan(job_id)
    [execution] = await fleet.executions(job_id)
    await Blocks(store).lift(held.id, BY)
    await operate(fleet, execution.task_id, Resume("user:ann"))
    run = await fleet.start((await fleet.tasks(job_id))[execution.task_id])
    await deadlines_of(fleet).release_held()
    await fleet.complete(run)
    assert counts_of(await fleet.plan(job_id)) == {"succeeded": 1}
