"""Rollouts: hosts start in waves within the window, ends are counted once, a halt is final."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.clock import VirtualClock
from holdfast.core.fleet.model import HostState, JobStatus
from holdfast.core.fleet.rollout.policy import HostOrder, RolloutRequest
from holdfast.core.task import FailureKind, Status
from holdfast.fleet.hosts.hosts import Hosts
from holdfast.fleet.jobs.job_rows import counts_of, rollout_of
from holdfast.store.store import Store
from tests.backends import Bench
from tests.conformance.fleet.job_support import FleetBench
from tests.conformance.fleet.support import BY, PROJECT, events
from tests.conformance.tasks.helpers import check_counters


async def test_a_job_runs_from_the_outbox_to_its_end(store: Store) -> None:
    fleet = FleetBench(store)
    job_id = (await fleet.create(await fleet.add_hosts(3))).job.id
    assert await fleet.publish() == 1
    assert (await fleet.job(job_id)).status is JobStatus.RUNNING
    assert await fleet.statuses(job_id) == {"queued": 3}
    job = await fleet.run_out(job_id)
    assert (job.status, counts_of(job)) == (JobStatus.SUCCESS, {"succeeded": 3})
    assert job.finished_at is not None
    assert await fleet.publish() == 0
    kinds = [event.kind for event in await events(store, "job.")]
    assert kinds[:3] == ["job.created", "job.planned", "job.wave"]
    assert kinds[-1] == "job.finished"
    await check_counters(store)


async def test_the_window_is_never_exceeded(store: Store) -> None:
    fleet = FleetBench(store)
    names = await fleet.add_hosts(20)
    rollout = RolloutRequest(waves=(), max_in_flight=4)
    job_id = (await fleet.create(names, rollout=rollout)).job.id
    for _ in range(20):
        await fleet.plan(job_id)
        queued = await fleet.queued(job_id)
        if not queued:
            break
        assert len(queued) <= 4
        await fleet.succeed(queued[0])
    assert (await fleet.run_out(job_id)).status is JobStatus.SUCCESS


async def test_a_failed_canary_halts_the_job_and_skips_the_rest(store: Store) -> None:
    fleet = FleetBench(store)
    names = await fleet.add_hosts(10)
    rollout = RolloutRequest(waves=(1, "rest"))
    job_id = (await fleet.create(names, rollout=rollout)).job.id
    await fleet.plan(job_id)
    [canary] = await fleet.queued(job_id)
    await fleet.fail(canary)
    job = await fleet.plan(job_id)
    assert job.status is JobStatus.FAILED
    assert await fleet.statuses(job_id) == {"failed": 1, "aborted": 9}
    assert counts_of(job) == {"failed": 1, "skipped": 9}
    assert "job.halted" in [event.kind for event in await events(store, "job.")]
    await check_counters(store)


async def test_two_planners_at_once_count_each_end_once(shared_bench: Bench) -> None:
    stores = [await shared_bench.open() for _ in range(2)]
    fleets = [FleetBench(store) for store in stores]
    names = await fleets[0].add_hosts(12)
    rollout = RolloutRequest(waves=(), max_in_flight=3)
    job_id = (await fleets[0].create(names, rollout=rollout)).job.id
    for _ in range(12):
        await asyncio.gather(*(fleet.plan(job_id) for fleet in (*fleets, *fleets)))
        queued = await fleets[0].queued(job_id)
        assert len(queued) <= 3
        for task in queued[:2]:
            await fleets[0].succeed(task)
    job = await fleets[0].plan(job_id)
    assert (job.status, counts_of(job)) == (JobStatus.SUCCESS, {"succeeded": 12})
    assert rollout_of(job).state.ended.total == 12


async def test_hosts_that_never_answer_expire_and_the_job_ends(
    store: Store, clock: VirtualClock
) -> None:
    fleet = FleetBench(store)
    names = await fleet.add_hosts(5)
    created = await fleet.create(
        names, rollout=RolloutRequest(waves=(2, "rest"), budget={}), not_after_seconds=100.0
    )
    job_id = created.job.id
    await fleet.plan(job_id)
    assert await fleet.statuses(job_id) == {"queued": 2, "blocked": 3}
    clock.pause(101.0)
    job = await fleet.plan(job_id)
    assert job.status is JobStatus.EXPIRED
    assert counts_of(job) == {"timeout_delivery": 2, "expired": 3}


async def test_a_host_that_runs_at_the_end_of_the_time_is_waited_for(
    store: Store, clock: VirtualClock
) -> None:
    fleet = FleetBench(store)
    names = await fleet.add_hosts(2)
    job_id = (await fleet.create(names, not_after_seconds=100.0)).job.id
    await fleet.plan(job_id)
    first, _ = await fleet.queued(job_id)
    await fleet.start(first)
    clock.pause(101.0)
    job = await fleet.plan(job_id)
    assert job.status is JobStatus.RUNNING
    assert await fleet.statuses(job_id) == {"running": 1, "aborted": 1}


async def test_a_host_that_was_removed_is_undeliverable(store: Store) -> None:
    fleet = FleetBench(store)
    names = await fleet.add_hosts(2)
    job_id = (await fleet.create(names)).job.id
    host = await Hosts(store).get(PROJECT, names[0])
    await Hosts(store).remove(host.id, BY)
    await fleet.plan(job_id)
    job = await fleet.run_out(job_id)
    assert counts_of(job) == {"undeliverable": 1, "succeeded": 1}
    assert job.status is JobStatus.PARTIAL


@pytest.mark.parametrize("kind", [FailureKind.TIMEOUT, FailureKind.LOST])
async def test_ends_are_counted_by_their_kind(store: Store, kind: FailureKind) -> None:
    fleet = FleetBench(store)
    names = await fleet.add_hosts(1)
    job_id = (await fleet.create(names)).job.id
    await fleet.plan(job_id)
    [task] = await fleet.queued(job_id)
    await fleet.fail(task, kind)
    job = await fleet.plan(job_id)
    expected = {"timeout_exec": 1} if kind is FailureKind.TIMEOUT else {"lost": 1}
    assert counts_of(job) == expected


async def test_more_than_one_batch_is_admitted(store: Store) -> None:
    fleet = FleetBench(store)
    names = await fleet.add_hosts(1_200)
    rollout = RolloutRequest(waves=(), max_in_flight=1_200)
    job_id = (await fleet.create(names, rollout=rollout)).job.id
    job = await fleet.plan(job_id)
    assert await fleet.statuses(job_id) == {"queued": 1_200}
    assert rollout_of(job).state.admitted == 1_200
    await check_counters(store)


async def test_a_step_of_a_finished_job_changes_nothing(store: Store) -> None:
    fleet = FleetBench(store)
    job_id = (await fleet.create(await fleet.add_hosts(1))).job.id
    ended = await fleet.run_out(job_id)
    assert await fleet.plan(job_id) == ended


async def test_cordoned_hosts_wait_out_of_the_window(store: Store, clock: VirtualClock) -> None:
    """A host that does not answer does not keep others from their turn."""
    fleet = FleetBench(store)
    names = await fleet.add_hosts(3)
    rollout = RolloutRequest(waves=(), max_in_flight=1, order=HostOrder.NAME)
    job_id = (await fleet.create(names, rollout=rollout)).job.id
    await fleet.plan(job_id)
    host = await Hosts(store).get(PROJECT, names[0])
    await Hosts(store).edit(host.id, BY, state=HostState.CORDONED.value)
    clock.pause(2.0)
    await fleet.plan(job_id)
    assert await fleet.statuses(job_id) == {"queued": 2, "blocked": 1}
    assert [task.assigned_to == host.id for task in await fleet.queued(job_id)] == [False]


async def test_failed_executions_are_no_dead_letters(store: Store) -> None:
    """Their job is retried; the core refuses to replay them."""
    fleet = FleetBench(store)
    names = await fleet.add_hosts(2)
    job_id = (await fleet.create(names)).job.id
    await fleet.run_out(job_id, lambda _: False)
    tasks = list((await fleet.tasks(job_id)).values())
    assert {task.status for task in tasks} == {Status.FAILED}
    assert [task.is_dead for task in tasks] == [False, False]
    assert await store.reads.count_dead() == 0
    assert await store.reads.find_dead(limit=10) == []
    assert await store.reads.dead_groups(10) == []
