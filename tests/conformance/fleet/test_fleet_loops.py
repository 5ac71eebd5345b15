"""The loops of jobs: they plan what is due, survive a bad row, and may run in several processes."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter

import pytest

from holdfast.clock import VirtualClock
from holdfast.core.fleet.model import ApprovalState, HostDriver, JobStatus, OutboxKind
from holdfast.fleet.blocks.blocks import Blocks, NewBlock
from holdfast.fleet.jobs import figures
from holdfast.fleet.jobs.outbox import CLAIM_SECONDS, Outbox
from holdfast.fleet.jobs.planned import Planned
from holdfast.fleet.loops import FleetLoops
from holdfast.fleet.pipeline import Pipeline
from holdfast.metrics import NullMeter
from holdfast.store.port import RowHeld
from holdfast.store.script import call, one
from holdfast.store.store import Store
from tests.backends import Bench
from tests.conformance.fleet.job_support import FleetBench
from tests.conformance.fleet.support import BY, PROJECT


def loops_of(fleet: FleetBench, clock: VirtualClock) -> FleetLoops:
    return FleetLoops(fleet.store, fleet.rules, clock, fleet.bus, fleet.pipeline)


async def turn(loops: FleetLoops, clock: VirtualClock) -> None:
    for loop in loops.loops:
        await loop.step()
    clock.pause(0.1)


async def test_the_loops_bring_a_job_to_its_end(store: Store, clock: VirtualClock) -> None:
    fleet = FleetBench(store)
    loops = loops_of(fleet, clock)
    job_id = (await fleet.create(await fleet.add_hosts(5))).job.id
    for _ in range(10):
        await turn(loops, clock)
        for task in await fleet.queued(job_id):
            await fleet.succeed(task)
    assert (await fleet.job(job_id)).status is JobStatus.SUCCESS


async def test_a_job_whose_outbox_entry_was_lost_is_planned(
    store: Store, clock: VirtualClock
) -> None:
    """The time of the job is a second way to it."""
    fleet = FleetBench(store)
    loops = loops_of(fleet, clock)
    job_id = (await fleet.create(await fleet.add_hosts(1))).job.id
    await Outbox(store, "dead").claim(OutboxKind.PLAN_JOB)
    await turn(loops, clock)
    assert (await fleet.job(job_id)).status is JobStatus.RUNNING


async def test_loops_of_two_processes_do_each_step_once(
    shared_bench: Bench, clock: VirtualClock
) -> None:
    fleets = [FleetBench(await shared_bench.open()) for _ in range(2)]
    both = [loops_of(fleet, clock) for fleet in fleets]
    job_id = (await fleets[0].create(await fleets[0].add_hosts(6))).job.id
    for _ in range(10):
        for loops in both:
            await turn(loops, clock)
        for task in (await fleets[0].queued(job_id))[:2]:
            await fleets[0].succeed(task)
    assert (await fleets[0].job(job_id)).status is JobStatus.SUCCESS


async def test_a_pause_of_the_loop_moves_every_clock(store: Store) -> None:
    """A rest of the pace that is smaller than a clock can tell would be waited for without end."""
    fleet, clock = FleetBench(store), VirtualClock(1_800_000_000.0)
    rollouts = loops_of(fleet, clock).rollouts
    for _ in range(200):
        pause = await rollouts.tick()
        assert clock.now() + pause > clock.now()
        clock.pause(min(pause, 0.013))


async def test_a_broken_job_stops_no_other(
    store: Store, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    fleet = FleetBench(store)
    loops = loops_of(fleet, clock)
    names = await fleet.add_hosts(2)
    broken = (await fleet.create(names)).job.id
    await store.run(
        lambda *_: one(
            call("written:UPDATE holdfast_job SET spec_json = 'x' WHERE id = :id", id=broken)
        )
    )
    good = (await fleet.create(names)).job.id
    with caplog.at_level(logging.CRITICAL, "holdfast.fleet"):
        await turn(loops, clock)
        await turn(loops, clock)
    assert (await fleet.job(good)).status is JobStatus.RUNNING
    assert loops.rollouts.troubles == 1, "it is left alone for a while"


async def test_executions_of_hosts_that_the_server_reaches_are_announced_until_they_start(
    store: Store, clock: VirtualClock
) -> None:
    fleet = FleetBench(store)
    names = await fleet.add_hosts(2, driver="ssh", address="10.0.0.1")
    job_id = (await fleet.create(names)).job.id
    await fleet.publish()
    await fleet.publish()
    first, second = await fleet.queued(job_id)
    assert sorted(fleet.driven) == sorted([first.id, second.id])
    await fleet.succeed(first)
    clock.pause(CLAIM_SECONDS)
    await fleet.publish()
    assert fleet.driven[2:] == [second.id]


async def test_jobs_executions_approvals_and_the_outbox_are_measured(
    store: Store, clock: VirtualClock
) -> None:
    fleet = FleetBench(store)
    meter = RecordingMeter()
    pipeline = Pipeline(store, fleet.rules, fleet.bus, owner="test", meter=meter)
    names = await fleet.add_hosts(2)
    await fleet.create(names, command_type="shell", command="true")
    job_id = (await fleet.create(names)).job.id
    clock.pause(3.0)
    await figures.look(meter, store, fleet.rules)
    assert meter.gauges[figures.APPROVALS, ()] == 1
    assert meter.gauges[figures.OUTBOX, ("PLAN_JOB",)] == 1
    assert meter.gauges[figures.OLDEST, ("PLAN_JOB",)] == 3.0
    await pipeline.plan_job(job_id)
    for task in await fleet.queued(job_id):
        await fleet.succeed(task)
    await pipeline.plan_job(job_id)
    assert meter.counts == {
        (figures.EXECUTIONS, ("SUCCESS", "succeeded")): 2,
        (figures.JOBS, ("SUCCESS",)): 1,
    }


class RecordingMeter(NullMeter):
    """Keeps what it is given."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, tuple[str, ...]]] = Counter()
        self.gauges: dict[tuple[str, tuple[str, ...]], float] = {}

    def count(self, name: str, n: float = 1.0, /, **labels: str) -> None:
        self.counts[name, tuple(labels.values())] += int(n)

    def gauge(self, name: str, value: float, /, **labels: str) -> None:
        self.gauges[name, tuple(labels.values())] = value


async def poison(store: Store, job_id: str, column: str) -> None:
    text = f"written:UPDATE holdfast_job SET {column} = '{{}}' WHERE id = :id"
    await store.run(lambda *_: one(call(text, id=job_id)))


async def test_a_broken_request_stops_no_other(store: Store, clock: VirtualClock) -> None:
    fleet = FleetBench(store)
    names = await fleet.add_hosts(1)
    made = [await fleet.create(names, command_type="shell", command="true") for _ in range(2)]
    await poison(store, made[0].job.id, "rollout_json")
    clock.pause(fleet.rules.approval_expires_seconds + 1.0)
    deadlines = loops_of(fleet, clock).deadlines
    await deadlines.step()
    await deadlines.step()
    assert (await fleet.job(made[1].job.id)).approval_state is ApprovalState.EXPIRED
    assert deadlines.troubles == 1, "the broken one is left alone for a while"


async def test_a_broken_job_with_held_executions_stops_no_other(
    store: Store, clock: VirtualClock
) -> None:
    fleet = FleetBench(store)
    names = await fleet.add_hosts(1)
    blocks = Blocks(store)
    held = await blocks.add(PROJECT, NewBlock(host=names[0], reason="disk", effect="hold"), BY)
    made = sorted([(await fleet.create(names)).job.id for _ in range(2)])
    for job_id in made:
        await fleet.plan(job_id)
    await poison(store, made[0], "spec_json")
    await blocks.lift(held.id, BY)
    deadlines = loops_of(fleet, clock).deadlines
    await deadlines.step()
    await deadlines.step()
    assert [task.held_by for task in (await fleet.tasks(made[1])).values()] == [None]
    assert deadlines.troubles == 1


async def test_a_broken_job_on_a_blocked_host_stops_no_other(
    store: Store, clock: VirtualClock
) -> None:
    fleet = FleetBench(store)
    names = await fleet.add_hosts(2)
    made = sorted([(await fleet.create([name])).job.id for name in names])
    for job_id in made:
        await fleet.plan(job_id)
        for task in await fleet.queued(job_id):
            await fleet.start(task)
    await poison(store, made[0], "spec_json")
    await Blocks(store).add(PROJECT, NewBlock(selector="*", reason="x", on_running="abort"), BY)
    deadlines = loops_of(fleet, clock).deadlines
    await deadlines.step()
    await deadlines.step()
    assert await fleet.statuses(made[1]) == {"aborted": 1}
    assert deadlines.troubles == 1


async def test_more_broken_jobs_than_one_look_takes_stop_no_other(
    store: Store, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.fleet.loops.JOBS_MAX", 2)
    fleet = FleetBench(store)
    names = await fleet.add_hosts(1)
    for _ in range(3):
        await poison(store, (await fleet.create(names)).job.id, "spec_json")
    clock.pause(0.1)
    good = (await fleet.create(names)).job.id
    rollouts = loops_of(fleet, clock).rollouts
    for _ in range(4):
        await rollouts.step()
        clock.pause(0.1)
    assert (await fleet.job(good)).status is JobStatus.RUNNING


async def test_a_job_whose_row_is_held_stops_no_other(store: Store, clock: VirtualClock) -> None:
    fleet = FleetBench(store)
    names = await fleet.add_hosts(1)
    held = (await fleet.create(names)).job.id
    free = (await fleet.create(names)).job.id
    plan = fleet.pipeline.plan_job

    async def plan_job(job_id: str) -> Planned:
        if job_id == held:
            raise RowHeld("another transaction holds it")
        return await plan(job_id)

    fleet.pipeline.plan_job = plan_job  # type: ignore[method-assign]
    loops = loops_of(fleet, clock)
    await loops.outbox.tick()
    assert (await fleet.job(free)).status is JobStatus.RUNNING, "by the outbox"
    other = (await fleet.create(names)).job.id
    await loops.rollouts.tick()
    assert (await fleet.job(other)).status is JobStatus.RUNNING, "by the rollouts"
    assert loops.rollouts.troubles == 0


async def test_a_process_claims_no_more_runs_than_it_has_places_for(
    store: Store, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others may take the rest; a place that becomes free is used at once."""
    monkeypatch.setattr("holdfast.fleet.loops.DRIVEN_MAX", 2)
    fleet = FleetBench(store)
    ends = asyncio.Event()

    async def drive(_execution_id: str) -> None:
        await ends.wait()

    drives = {HostDriver.SSH: drive}
    pipeline = Pipeline(store, fleet.rules, fleet.bus, owner="full", drives=drives)
    loops = FleetLoops(store, fleet.rules, clock, fleet.bus, pipeline)
    names = await fleet.add_hosts(5, driver="ssh", address="10.0.0.1")
    await fleet.plan((await fleet.create(names)).job.id)
    await loops.outbox.tick()
    assert len(await Outbox(store, "other").claim(OutboxKind.RUN_EXECUTION)) == 3
    assert not loops.outbox.is_woken
    driven = list(loops.outbox._driving.values())
    ends.set()
    await asyncio.gather(*driven)
    assert loops.outbox.is_woken
