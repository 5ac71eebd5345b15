"""Hosts that the server drives and cannot reach leave the window, as silent agents do."""

from __future__ import annotations

from holdfast.clock import VirtualClock
from holdfast.core.fleet.model import JobStatus
from holdfast.core.fleet.rollout.policy import HostOrder, RolloutRequest
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
