"""A rehearsal of a job: the real planner, protocol and agents, on simulated hosts in virtual time.

Promises: nothing is executed and nothing is written outside of this process. The same request, hosts, faults
and seed give the same answer. A job that needs an approval is rehearsed as if it had one.
Never: call `rehearse` in a thread with a running event loop: it runs one.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from holdfast.app import resources_for
from holdfast.core.event import Event
from holdfast.core.fleet.approvals.rules import NO_APPROVAL
from holdfast.core.fleet.hosts.entry import HostEntry
from holdfast.core.fleet.jobs.request import JobRequest
from holdfast.core.fleet.jobs.spec import check_request
from holdfast.core.fleet.model import Host, HostDriver, Job, JobStatus
from holdfast.core.fleet.rules import RULES, FleetRules
from holdfast.core.fleet.status import KINDS, ExecutionKind
from holdfast.core.ids import Ids
from holdfast.errors import InvalidInput
from holdfast.fleet.blocks.blocks import NewBlock
from holdfast.fleet.jobs.create import Excluded
from holdfast.fleet.jobs.job_rows import counts_of, read_job, rollout_of
from holdfast.fleet.simulated.commands import Behaviour
from holdfast.fleet.simulated.dice import Dice
from holdfast.fleet.simulated.faults import NO_FAULTS, SimulatedFaults, check_faults
from holdfast.fleet.simulated.registration import register
from holdfast.queue.by import By
from holdfast.sim.clock import NodeClock
from holdfast.sim.draw import Draw
from holdfast.sim.fleet.hosts import HostInSim
from holdfast.sim.fleet.server import OpenServer
from holdfast.sim.loop import SimLoop
from holdfast.sim.outcome import all_events

BY: Final = By(actor="user:rehearsal")
SWEEP_SECONDS: Final = 2.0
LOOK_SECONDS: Final = 0.5
SETTLE_SECONDS: Final = 5.0
"""How long agents have to connect before the job is made."""
SECONDS_MAX: Final = 30 * 86_400.0


class Assumptions(msgspec.Struct, frozen=True, kw_only=True):
    """What is not known before the job runs."""

    faults: SimulatedFaults = NO_FAULTS
    seed: int = 0
    command_seconds: tuple[float, float] = (0.5, 5.0)
    """How long the command takes on a host, at least and at most, unless it is one that simulated hosts
    know."""
    fail: float = 0.0
    """The share of hosts on which it fails."""


NO_ASSUMPTIONS: Final = Assumptions()


class RehearsedWave(msgspec.Struct, frozen=True):
    """One wave of a rehearsed job. Times count from the creation of the job."""

    wave: int
    size: int
    opened_at: float
    closed_at: float | None
    ended: dict[str, int]
    """Ends by bucket."""


class Rehearsal(msgspec.Struct, frozen=True, kw_only=True):
    """What would happen."""

    status: JobStatus
    hosts: int
    seconds: float
    """Until the job has ended."""
    waves: tuple[RehearsedWave, ...]
    kinds: dict[str, int]
    """Executions by fine kind."""
    statuses: dict[str, int]
    """The same by status."""
    halt: str | None = None
    """Why the job would halt. None: it would not."""
    halted_after: float | None = None
    most_running: int = 0
    """The largest number of hosts that ran the command at the same time."""
    starts: int = 0
    crashes: int = 0
    """Agents that were killed, and hosts that lost their power among them."""
    excluded: tuple[Excluded, ...] = ()


def rehearse(
    request: JobRequest,
    hosts: Sequence[HostEntry],
    rules: FleetRules = RULES,
    assumptions: Assumptions = NO_ASSUMPTIONS,
    *,
    groups: Mapping[str, str] | None = None,
    blocks: Sequence[NewBlock] = (),
) -> Rehearsal:
    """Runs the job on these hosts in virtual time. `groups`: selectors by name. Raises what the creation of
    the job would raise."""
    check_faults(assumptions.faults)
    low, high = assumptions.command_seconds
    if not 0.0 <= low <= high:
        raise InvalidInput(f"the command takes {low:g} to {high:g} seconds: give LOW..HIGH")
    loop = SimLoop(Draw(assumptions.seed, "rehearsal"))  # type: ignore[abstract]
    try:
        run = _Run(loop, request, rules, assumptions)
        result: Rehearsal = loop.run_until_complete(run.main(hosts, groups or {}, blocks))
        return result
    finally:
        loop.close()


class _Run:
    """One rehearsal."""

    def __init__(
        self, loop: SimLoop, request: JobRequest, rules: FleetRules, assumptions: Assumptions
    ) -> None:
        self._loop = loop
        self._assumptions = assumptions
        self._rules = replace(rules, approval_rules=(), approval_default=NO_APPROVAL)
        spec = check_request(request, rules.command_types, rules)
        definition = replace(spec.definition, approval=NO_APPROVAL)
        self._spec = replace(spec, definition=definition, dry_run=False)
        ids = Ids(Draw(assumptions.seed, "ids"))
        clock = NodeClock(loop)
        self._resources = resources_for("sqlite://", clock, inline=True, ids=ids)()
        self._hosts: list[HostInSim] = []

    async def main(
        self, entries: Sequence[HostEntry], groups: Mapping[str, str], blocks: Sequence[NewBlock]
    ) -> Rehearsal:
        resources = self._resources
        await resources.store.open()
        await resources.bus.start()
        server = OpenServer(resources, self._rules, "rehearsal")
        made = await self._fill(server, entries, groups, blocks)
        tasks = [asyncio.ensure_future(server.run()), asyncio.ensure_future(self._sweep())]
        contextvars.Context().run(self._start, server, made)
        await asyncio.sleep(SETTLE_SECONDS)
        created = await server.fleet.jobs.create_from(self._spec, BY)
        job = await self._ended(created.job)
        for task in tasks:
            task.cancel()
        for host in self._hosts:
            host.host.stop()
            host.link.close()
        await asyncio.gather(*tasks, return_exceptions=True)
        events = await all_events(resources.store)
        return self._result(job, created.excluded, events)

    async def _fill(
        self,
        server: OpenServer,
        entries: Sequence[HostEntry],
        groups: Mapping[str, str],
        blocks: Sequence[NewBlock],
    ) -> list[Host]:
        project = self._spec.project
        simulated = [replace(entry, driver=HostDriver.SIMULATED.value) for entry in entries]
        heartbeat = self._rules.heartbeat_seconds
        store = self._resources.store
        made = await register(store, simulated, project=project, heartbeat_seconds=heartbeat)
        for name, selector in groups.items():
            await server.fleet.groups.add(project, name, selector, BY)
        for block in blocks:
            await server.fleet.blocks.add(project, block, BY)
        return made

    def _start(self, server: OpenServer, hosts: Sequence[Host]) -> None:
        assumptions = self._assumptions
        for host in hosts:
            dice = Dice(assumptions.seed, host.name)
            fails = dice.stream("fails").chance(assumptions.fail)
            does = Behaviour(exit_code=int(fails), seconds=assumptions.command_seconds)
            made = HostInSim(self._loop, host, server.desk, assumptions.faults, dice, assumed=does)
            self._hosts.append(made)
            made.host.start()

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            await self._resources.store.sweep()

    async def _ended(self, job: Job) -> Job:
        end = self._loop.time() + SECONDS_MAX
        found: Job | None = job
        while found is not None and found.finished_at is None and self._loop.time() < end:
            await asyncio.sleep(LOOK_SECONDS)
            found = await self._resources.store.read(lambda: read_job(job.id))
        assert found is not None
        return found

    def _result(self, job: Job, excluded: Sequence[Excluded], events: Sequence[Event]) -> Rehearsal:
        rollout, kinds = rollout_of(job), counts_of(job)
        statuses: Counter[str] = Counter()
        for kind, count in kinds.items():
            statuses[KINDS[ExecutionKind(kind)].status.value] += count
        halts = [e for e in events if e.kind == "job.halted" and e.data.get("job") == job.id]
        runs = [run for host in self._hosts for run in host.host.machine.history]
        return Rehearsal(
            status=job.status,
            hosts=job.hosts,
            seconds=(job.finished_at or self._resources.store.now()) - job.created_at,
            waves=tuple(
                RehearsedWave(
                    wave=nth,
                    size=wave.size,
                    opened_at=wave.opened_at - job.created_at,
                    closed_at=None if wave.closed_at is None else wave.closed_at - job.created_at,
                    ended={name: n for name, n in msgspec.structs.asdict(wave.ended).items() if n},
                )
                for nth, wave in enumerate(rollout.state.waves, start=1)
            ),
            kinds=kinds,
            statuses=dict(statuses),
            halt=None if rollout.state.halt is None else rollout.state.halt.reason,
            halted_after=halts[0].at - job.created_at if halts else None,
            most_running=_most([(run.started_at, run.ended_at) for run in runs], self._loop.time()),
            starts=len(runs),
            crashes=sum(host.host.crashes for host in self._hosts),
            excluded=tuple(excluded),
        )


def _most(spans: Sequence[tuple[float, float | None]], end: float) -> int:
    """The largest number of spans at one time."""
    moves = [(start, 1) for start, _ in spans]
    moves += [(end if until is None else until, -1) for _, until in spans]
    running = most = 0
    for _, move in sorted(moves):
        running += move
        most = max(most, running)
    return most
