"""Orders to jobs: pause, resume, abort, promote, change, retry."""

from __future__ import annotations

import pytest

from holdfast.core.errors import ApprovalVoid, EmptySelection
from holdfast.core.fleet.approvals.approval import Person
from holdfast.core.fleet.model import ApprovalState, JobStatus
from holdfast.core.fleet.rollout.policy import BudgetName, GateMode, RolloutRequest
from holdfast.core.task import Status
from holdfast.errors import IllegalTransition, NotFound, VersionConflict
from holdfast.fleet.jobs import control
from holdfast.fleet.jobs.approvals import Approvals
from holdfast.fleet.jobs.control import JobControl, RolloutChange
from holdfast.fleet.jobs.job_rows import counts_of
from holdfast.queue.by import By
from holdfast.store.audit import AuditStore
from holdfast.store.store import Store
from tests.conformance.fleet.job_support import FleetBench
from tests.conformance.fleet.support import BY, audited, events
from tests.conformance.tasks.helpers import check_counters

WINDOW = RolloutRequest(waves=(), max_in_flight=2, budget={BudgetName.FAILED: None})


def control_of(fleet: FleetBench) -> JobControl:
    return JobControl(fleet.store, fleet.rules, fleet.bus)


async def started(fleet: FleetBench, hosts: int = 6) -> str:
    names = await fleet.add_hosts(hosts)
    job_id = (await fleet.create(names, rollout=WINDOW)).job.id
    await fleet.plan(job_id)
    return job_id


async def test_a_paused_job_starts_no_host_until_it_is_resumed(store: Store) -> None:
    fleet = FleetBench(store)
    job_id = await started(fleet)
    control = control_of(fleet)
    assert (await control.pause(job_id, BY)).job.status is JobStatus.PAUSED
    assert (await control.pause(job_id, BY)).is_repeat
    for task in await fleet.queued(job_id):
        await fleet.succeed(task)
    await fleet.plan(job_id)
    assert await fleet.statuses(job_id) == {"completed": 2, "blocked": 4}
    await control.resume(job_id, BY)
    assert (await control.resume(job_id, BY)).is_repeat
    assert (await fleet.run_out(job_id)).status is JobStatus.SUCCESS
    kinds = [event.kind for event in await events(store, "job.")]
    assert kinds.count("job.halted") == kinds.count("job.resumed") == 1


async def test_an_abort_ends_what_has_no_go_and_lets_the_rest_finish(store: Store) -> None:
    fleet = FleetBench(store)
    job_id = await started(fleet)
    first, _ = await fleet.queued(job_id)
    run = await fleet.start(first)
    ordered = await control_of(fleet).abort(job_id, BY)
    assert ordered.job.status is JobStatus.HALTING
    assert await fleet.statuses(job_id) == {"running": 1, "aborted": 5}
    assert (await control_of(fleet).abort(job_id, BY)).is_repeat
    await fleet.complete(run)
    job = await fleet.plan(job_id)
    assert job.status is JobStatus.CANCELLED
    assert counts_of(job) == {"succeeded": 1, "cancelled_before_start": 5}
    await check_counters(store)


async def test_an_abort_that_comes_too_late_leaves_the_job_a_success(store: Store) -> None:
    fleet = FleetBench(store)
    job_id = await started(fleet, 2)
    runs = [await fleet.start(task) for task in await fleet.queued(job_id)]
    await control_of(fleet).abort(job_id, BY)
    for run in runs:
        await fleet.complete(run)
    job = await fleet.plan(job_id)
    assert (job.status, counts_of(job)) == (JobStatus.SUCCESS, {"succeeded": 2})
    assert job.halt_json is not None, "the abort is shown beside the status"


async def test_a_kill_aborts_what_runs_and_orders_its_agents(store: Store) -> None:
    fleet = FleetBench(store)
    job_id = await started(fleet)
    first, _ = await fleet.queued(job_id)
    await fleet.start(first)
    await control_of(fleet).abort(job_id, BY, mode="kill")
    assert await fleet.statuses(job_id) == {"aborted": 6}
    assert first.assigned_to is not None
    [order] = await store.interventions.deliver(first.assigned_to)
    assert (order.task_id, order.type.value) == (first.id, "ABORT")
    job = await fleet.plan(job_id)
    assert job.status is JobStatus.CANCELLED
    assert counts_of(job) == {"cancelled_unconfirmed": 1, "cancelled_before_start": 5}


async def test_a_draining_job_can_still_be_killed(store: Store) -> None:
    fleet = FleetBench(store)
    job_id = await started(fleet)
    first, _ = await fleet.queued(job_id)
    await fleet.start(first)
    await control_of(fleet).abort(job_id, BY)
    await fleet.plan(job_id)
    await control_of(fleet).abort(job_id, BY, mode="kill")
    assert (await fleet.plan(job_id)).status is JobStatus.CANCELLED


async def test_a_gated_wave_waits_for_a_person(store: Store) -> None:
    fleet = FleetBench(store)
    names = await fleet.add_hosts(4)
    rollout = RolloutRequest(waves=(1, "rest"), gate=GateMode.ASK)
    job_id = (await fleet.create(names, rollout=rollout)).job.id
    with pytest.raises(IllegalTransition):
        await control_of(fleet).promote(job_id, BY)
    await fleet.run_out(job_id)
    assert await fleet.statuses(job_id) == {"completed": 1, "blocked": 3}
    await control_of(fleet).promote(job_id, BY)
    assert (await fleet.run_out(job_id)).status is JobStatus.SUCCESS


async def test_the_window_changes_while_the_job_runs(store: Store) -> None:
    fleet = FleetBench(store)
    job_id = await started(fleet)
    before = (await fleet.job(job_id)).version
    ordered = await control_of(fleet).set(job_id, RolloutChange(max_in_flight=4), BY)
    assert ordered.job.version == before + 1
    await fleet.plan(job_id)
    assert len(await fleet.queued(job_id)) == 4
    again = await control_of(fleet).set(job_id, RolloutChange(max_in_flight=4), BY)
    assert again.is_repeat


async def test_a_change_never_allows_more_where_the_approval_was_skipped(store: Store) -> None:
    """Not even what was asked for was approved."""
    fleet = FleetBench(store)
    names = await fleet.add_hosts(3)
    created = await fleet.create(names, command_type="shell", command="true", rollout=WINDOW)
    job_id = created.job.id
    await Approvals(store, fleet.rules, fleet.bus).break_glass(
        job_id, "T-1", By("user:eve", "fire")
    )
    control = control_of(fleet)
    with pytest.raises(ApprovalVoid, match="max_in_flight"):
        await control.set(job_id, RolloutChange(max_in_flight=100), BY)
    await control.set(job_id, RolloutChange(max_in_flight=1), BY)


async def test_a_change_never_allows_more_than_what_was_approved(store: Store) -> None:
    fleet = FleetBench(store)
    names = await fleet.add_hosts(6)
    created = await fleet.create(names, command_type="shell", command="true", rollout=WINDOW)
    job_id = created.job.id
    bob = Person("user:bob", frozenset({"role:approver"}))
    await Approvals(store, fleet.rules, fleet.bus).approve(job_id, bob, By("user:bob", "yes"))
    control = control_of(fleet)
    with pytest.raises(ApprovalVoid, match="max_in_flight"):
        await control.set(job_id, RolloutChange(max_in_flight=3), BY)
    await control.set(job_id, RolloutChange(max_in_flight=1), BY)
    await fleet.plan(job_id)
    assert len(await fleet.queued(job_id)) == 1
    await control.set(job_id, RolloutChange(max_in_flight=2), BY)


async def test_an_abort_before_the_approval_ends_the_request(store: Store) -> None:
    fleet = FleetBench(store)
    names = await fleet.add_hosts(2)
    job_id = (await fleet.create(names, command_type="shell", command="true")).job.id
    await control_of(fleet).abort(job_id, BY)
    job = await fleet.plan(job_id)
    assert (job.status, job.approval_state) == (JobStatus.CANCELLED, ApprovalState.VOID)
    assert await Approvals(store, fleet.rules, fleet.bus).open() == []


async def test_orders_to_ended_and_unknown_jobs_are_refused(store: Store) -> None:
    fleet = FleetBench(store)
    job_id = (await fleet.create(await fleet.add_hosts(1))).job.id
    await fleet.run_out(job_id)
    control = control_of(fleet)
    for order in (control.pause, control.resume, control.abort, control.promote):
        with pytest.raises(IllegalTransition):
            await order(job_id, BY)
        with pytest.raises(NotFound):
            await order("job_none", BY)


async def test_an_expected_version_guards_an_order(store: Store) -> None:
    fleet = FleetBench(store)
    job_id = await started(fleet)
    version = (await fleet.job(job_id)).version
    with pytest.raises(VersionConflict):
        await control_of(fleet).pause(job_id, By("user:ann", "x", version - 1))
    for task in await fleet.queued(job_id):
        await fleet.succeed(task)
    await fleet.plan(job_id)
    await control_of(fleet).pause(job_id, By("user:ann", "progress leaves the version", version))


async def test_a_retry_is_a_new_job_for_the_hosts_that_failed(store: Store) -> None:
    fleet = FleetBench(store)
    job_id = await started(fleet)
    bad = {task.id for task in (await fleet.queued(job_id))[:1]}
    with pytest.raises(IllegalTransition):
        await control_of(fleet).retry(job_id, BY)
    await fleet.run_out(job_id, lambda task: task.id not in bad)
    assert counts_of(await fleet.job(job_id)) == {"failed": 1, "succeeded": 5}
    again = await control_of(fleet).retry(job_id, audited("retry"), external_id="again")
    assert again.created
    assert again.job.parent_id == job_id
    failed = [e.host for e in await fleet.executions(job_id) if e.task_id in bad]
    assert [e.host for e in await fleet.executions(again.job.id)] == failed
    repeat = await control_of(fleet).retry(job_id, BY, external_id="again")
    assert (repeat.job.id, repeat.created) == (again.job.id, False)
    assert (await fleet.run_out(again.job.id)).status is JobStatus.SUCCESS
    with pytest.raises(EmptySelection):
        await control_of(fleet).retry(again.job.id, BY)
    assert (await AuditStore(store).head()).seq == 1


async def test_a_retry_of_what_a_halt_left_out_goes_on_with_these_hosts(store: Store) -> None:
    fleet = FleetBench(store)
    job_id = await started(fleet)
    first = {task.id for task in await fleet.queued(job_id)}
    await control_of(fleet).abort(job_id, BY)
    await fleet.run_out(job_id)
    left = [e.host for e in await fleet.executions(job_id) if e.task_id not in first]
    control = control_of(fleet)
    with pytest.raises(EmptySelection, match=r"others ended as \d cancelled: name those in only"):
        await control.retry(job_id, BY)
    again = await control.retry(job_id, BY, only=["cancelled"])
    assert set(left) <= {e.host for e in await fleet.executions(again.job.id)}
    assert (await fleet.run_out(again.job.id)).status is JobStatus.SUCCESS


async def test_the_audit_is_in_the_transaction_of_an_order(store: Store) -> None:
    fleet = FleetBench(store)
    job_id = await started(fleet)
    await control_of(fleet).abort(job_id, audited("abort"))
    assert (await AuditStore(store).head()).seq == 1
    assert all(task.status is Status.ABORTED for task in (await fleet.tasks(job_id)).values())


@pytest.mark.parametrize("mode", ["drain", "kill"])
async def test_an_abort_ends_all_that_could_start_in_its_own_transaction(
    store: Store, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """However many hosts there are: else an offer that began before it could start one after it."""
    monkeypatch.setattr(control, "ENDED_MAX", 1)
    fleet = FleetBench(store)
    names = await fleet.add_hosts(6)
    rollout = RolloutRequest(waves=(), max_in_flight=4)
    job_id = (await fleet.create(names, rollout=rollout)).job.id
    await fleet.plan(job_id)
    assert await fleet.statuses(job_id) == {"queued": 4, "blocked": 2}
    await JobControl(store, fleet.rules, fleet.bus).abort(job_id, BY, mode=mode)
    assert "queued" not in await fleet.statuses(job_id)
    assert (await fleet.plan(job_id)).status is JobStatus.CANCELLED
    assert await fleet.statuses(job_id) == {"aborted": 6}
