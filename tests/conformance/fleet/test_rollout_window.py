"""The window of a rollout, at every offer: hosts that were away or held come back one by one."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from holdfast.clock import VirtualClock
from holdfast.core.fleet.model import JobStatus
from holdfast.core.fleet.rollout.policy import HostOrder, RolloutRequest
from holdfast.core.fleet.status import ExecutionKind
from holdfast.fleet.blocks.blocks import Blocks, NewBlock
from holdfast.fleet.hosts.hosts import Hosts
from holdfast.fleet.jobs.control import JobControl
from holdfast.fleet.jobs.deadlines import Deadlines
from holdfast.fleet.jobs.matrix import LETTER_OF, JobMatrix
from holdfast.fleet.jobs.reads import JobReads
from holdfast.fleet.jobs.why import ExecutionReasons
from holdfast.store.store import Store
from tests.conformance.fleet.agent_support import TestAgent, accept, exited, running
from tests.conformance.fleet.job_support import FleetBench
from tests.conformance.fleet.support import BY, PROJECT
from tests.conformance.fleet.test_job_with_agents import joined

WINDOW = RolloutRequest(waves=(), max_in_flight=2, order=HostOrder.NAME, budget={})
CANARY = RolloutRequest(
    waves=(1, "rest"), max_in_flight=10, order=HostOrder.NAME, straggler_seconds=5.0, budget={}
)


class Rollout:
    """A job on agents that say what a test makes them say."""

    def __init__(
        self, fleet: FleetBench, clock: VirtualClock, agents: dict[str, TestAgent]
    ) -> None:
        self.fleet, self.clock, self.agents = fleet, clock, agents
        self.runs: dict[str, tuple[str, int]] = {}

    async def begin(self, rollout: RolloutRequest) -> str:
        fields = {"command_type": "exec", "command": "true", "not_after_seconds": 3_000.0}
        made = await self.fleet.create(list(self.agents), rollout=rollout, **fields)
        self.job_id = made.job.id
        await self.fleet.publish()
        return self.job_id

    async def pass_time(self, seconds: float, speak: Iterable[str] = ()) -> None:
        """Agents that do not speak are silent for this long."""
        self.clock.set(self.clock.now() + seconds)
        for name in speak:
            await self.agents[name].sync()
        await self.fleet.plan(self.job_id)

    async def start(self) -> list[str]:
        """All free hosts sync, and those that are offered something start."""
        found = []
        for name, agent in self.agents.items():
            if name not in self.runs and (offers := (await agent.sync()).offers):
                run = (offers[0].execution, offers[0].token)
                assert (await agent.sync(**accept(*run))).go
                await agent.sync(**running(*run))
                self.runs[name] = run
                found.append(name)
        return found

    async def end(self, name: str) -> None:
        await self.agents[name].sync(results=[exited(*self.runs.pop(name))])

    async def run_out(self, most: int) -> list[int]:
        """Runs the job to its end. Returns how many hosts ran at once, at each look."""
        seen = []
        for _ in range(60):
            await self.start()
            seen.append(len(self.runs))
            assert len(self.runs) <= most, f"{sorted(self.runs)} run at once"
            for name in list(self.runs):
                await self.end(name)
            self.clock.set(self.clock.now() + 1.5)
            if (await self.fleet.plan(self.job_id)).finished_at is not None:
                return seen
        raise AssertionError("the job does not end")


async def rollout_of(store: Store, clock: VirtualClock, count: int) -> Rollout:
    fleet = FleetBench(store)
    return Rollout(fleet, clock, await joined(fleet, count))


async def hold_all(store: Store) -> str:
    new = NewBlock(selector="*", reason="disk swap", effect="hold")
    return (await Blocks(store).add(PROJECT, new, BY)).id


async def lift(rollout: Rollout, block_id: str) -> None:
    fleet = rollout.fleet
    await Blocks(fleet.store).lift(block_id, BY)
    await Deadlines(fleet.store, fleet.rules, fleet.bus).release_held()
    await fleet.plan(rollout.job_id)


async def test_a_lifted_block_lets_no_more_hosts_start_than_the_window(
    store: Store, clock: VirtualClock
) -> None:
    rollout = await rollout_of(store, clock, 6)
    block = await hold_all(store)
    await rollout.begin(WINDOW)
    for _ in range(5):
        await rollout.pass_time(2.0, rollout.agents)
    await lift(rollout, block)
    assert max(await rollout.run_out(2)) == 2
    assert (await rollout.fleet.job(rollout.job_id)).status is JobStatus.SUCCESS


async def test_a_healed_partition_lets_no_more_hosts_start_than_the_window(
    store: Store, clock: VirtualClock
) -> None:
    rollout = await rollout_of(store, clock, 6)
    await rollout.begin(WINDOW)
    for _ in range(6):
        await rollout.pass_time(200.0)
    assert max(await rollout.run_out(2)) == 2
    assert (await rollout.fleet.job(rollout.job_id)).status is JobStatus.SUCCESS


async def test_hosts_put_into_service_again_keep_the_window(
    store: Store, clock: VirtualClock
) -> None:
    rollout = await rollout_of(store, clock, 5)
    hosts = Hosts(store)
    await rollout.begin(WINDOW)
    for agent in rollout.agents.values():
        await hosts.edit(agent.host_id, BY, state="cordoned")
    for _ in range(6):
        await rollout.pass_time(2.0, rollout.agents)
    for agent in rollout.agents.values():
        await hosts.edit(agent.host_id, BY, state="active")
    await rollout.pass_time(2.0, rollout.agents)
    assert max(await rollout.run_out(2)) == 2


async def test_a_drained_agent_leaves_the_window_until_it_takes_work_again(
    store: Store, clock: VirtualClock
) -> None:
    rollout = await rollout_of(store, clock, 4)
    await rollout.begin(WINDOW)
    [first, *_] = rollout.agents
    others = set(rollout.agents) - {first}
    for _ in range(2):
        await rollout.agents[first].sync(capacity=0)
        await rollout.pass_time(2.0, others - set(rollout.runs))
    assert [e.away for e in await rollout.fleet.executions(rollout.job_id)] == [True, *[False] * 3]
    reads = JobReads(store, rollout.fleet.rules)
    job = await rollout.fleet.job(rollout.job_id)
    [closed] = (await reads.executions(job, host=first)).items
    assert closed.shown.kind is ExecutionKind.HOST_CLOSED
    assert (await reads.detail(job.id)).kinds["host_closed"] == 1
    cells = (await JobMatrix(store, rollout.fleet.rules).cells(job)).cells
    assert cells[0] == LETTER_OF[ExecutionKind.HOST_CLOSED]
    causes = (await ExecutionReasons(store, rollout.fleet.rules).why(job, closed)).causes
    assert [cause.code for cause in causes] == ["agent_closed", "turn"]
    assert max(await rollout.run_out(2)) == 2
    assert (await rollout.fleet.job(rollout.job_id)).status is JobStatus.SUCCESS


async def test_why_says_that_a_host_waits_for_its_turn(store: Store, clock: VirtualClock) -> None:
    rollout = await rollout_of(store, clock, 4)
    await rollout.begin(WINDOW)
    for _ in range(4):
        await rollout.pass_time(200.0)
    assert len(await rollout.start()) == 0
    await rollout.pass_time(2.0)
    assert len(await rollout.start()) == 2
    job = await rollout.fleet.job(rollout.job_id)
    reads = JobReads(store, rollout.fleet.rules)
    assert (await reads.detail(job.id)).kinds == {"awaiting_turn": 2, "running": 2}
    waiting = [
        v for v in (await reads.executions(job)).items if v.execution.host not in rollout.runs
    ]
    assert {view.shown.kind.value for view in waiting} == {"awaiting_turn"}
    why = await ExecutionReasons(store, rollout.fleet.rules).why(job, waiting[0])
    assert [cause.code for cause in why.causes] == ["turn"]
    assert "2 of at most 2" in why.causes[0].text


async def test_a_host_of_a_first_wave_that_never_ran_runs_before_the_others(
    store: Store, clock: VirtualClock
) -> None:
    """A wave in which nothing has run says nothing about the command."""
    rollout = await rollout_of(store, clock, 5)
    block = await hold_all(store)
    await rollout.begin(CANARY)
    for _ in range(5):
        await rollout.pass_time(6.0, rollout.agents)
    await lift(rollout, block)
    assert await rollout.start() == ["web-001"]
    await rollout.pass_time(2.0)
    assert await rollout.start() == []
    await rollout.end("web-001")
    await rollout.pass_time(2.0)
    assert len(await rollout.start()) == 4


@pytest.mark.parametrize("order", ["pause", "abort"])
async def test_a_halted_job_lets_no_host_return(
    store: Store, clock: VirtualClock, order: str
) -> None:
    rollout = await rollout_of(store, clock, 4)
    await rollout.begin(WINDOW)
    for _ in range(3):
        await rollout.pass_time(200.0)
    control = JobControl(store, rollout.fleet.rules, rollout.fleet.bus)
    await getattr(control, order)(rollout.job_id, BY)
    assert await rollout.start() == []
    await rollout.pass_time(2.0)
    assert await rollout.start() == []


async def test_a_host_keeps_its_place_if_its_block_is_lifted_before_the_next_look(
    store: Store, clock: VirtualClock
) -> None:
    rollout = await rollout_of(store, clock, 2)
    await rollout.begin(WINDOW)
    block = await hold_all(store)
    assert await rollout.start() == []
    await lift(rollout, block)
    assert len(await rollout.start()) == 2
