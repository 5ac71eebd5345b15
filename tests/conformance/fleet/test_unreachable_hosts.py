"""Hosts that the server drives and cannot reach leave the window, as silent agents do."""

from __future__ import annotations

from holdfast.clock import VirtualClock
from holdfast.core.fleet.model import JobStatus
from holdfast.core.fleet.rollout.policy import HostOrder, RolloutRequest
from holdfast.core.fleet.rules import FleetHosting, FleetRules
from holdfast.core.fleet.status import ExecutionKind
from holdfast.fleet.hosts.scripts import note_reach
from holdfast.fleet.jobs.reads import JobReads
from holdfast.fleet.jobs.why import ExecutionReasons
from holdfast.store.store import Store
from tests.conformance.fleet.job_support import FleetBench


async def test_a_dead_ssh_host_leaves_the_window_until_it_answers(
    store: Store, clock: VirtualClock
) -> None:
    fleet = FleetBench(store)
    names = await fleet.add_hosts(3, driver="ssh")
    rollout = RolloutRequest(waves=(), max_in_flight=1, order=HostOrder.NAME)
    job = (await fleet.create(names, rollout=rollout)).job
    await fleet.plan(job.id)
    assert len(await fleet.queued(job.id)) == 1
    dead, *_ = await fleet.executions(job.id)
    clock.pause(60.0)
    at = store.now()
    await store.run(lambda _dialect, _ids, _now: note_reach(dead.host_id, at))
    await fleet.plan(job.id)
    seen = [(e.wave is not None, e.away) for e in await fleet.executions(job.id)]
    assert seen == [(True, True), (True, False), (False, False)]
    read, view = await JobReads(store, fleet.rules).execution(dead.task_id)
    assert view.shown.kind is ExecutionKind.HOST_UNREACHABLE
    why = await ExecutionReasons(store, fleet.rules).why(read, view)
    assert any("could not be reached" in str(cause) for cause in why.causes)
    await store.run(lambda _dialect, _ids, _now: note_reach(dead.host_id, None))
    clock.pause(60.0)
    ended = await fleet.run_out(job.id)
    assert ended.status is JobStatus.SUCCESS


async def test_hosts_that_wait_for_a_worker_of_celery_are_not_out_of_reach(
    store: Store, clock: VirtualClock
) -> None:
    """No agent of theirs speaks while no worker reaches them."""
    fleet = FleetBench(store, FleetRules(hosting=FleetHosting.CELERY))
    names = await fleet.add_hosts(3, driver="simulated")
    rollout = RolloutRequest(waves=(), max_in_flight=2, order=HostOrder.NAME)
    job = (await fleet.create(names, rollout=rollout)).job
    for _ in range(3):
        clock.pause(200.0)
        await fleet.plan(job.id)
    waiting = await fleet.executions(job.id)
    assert [(e.wave is not None, e.away) for e in waiting] == [(True, False)] * 2 + [(False, False)]
    reads = JobReads(store, fleet.rules)
    assert (await reads.detail(job.id)).kinds == {"awaiting_wave": 1, "queued": 2}
    read, view = await reads.execution(waiting[0].task_id)
    [cause] = (await ExecutionReasons(store, fleet.rules).why(read, view)).causes
    assert cause.text == f"waits for a process that is free to reach {view.execution.host}"
