"""Simulated hosts beside a server: registered, started a few at a time, and run until the server stops.

Promises: the agents speak with the server through the same door as others, without HTTP. Idle hosts cost
little. Never: executes anything on this machine.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

import msgspec

from holdfast.clock import Clock
from holdfast.core.errors import GatewayUnavailable
from holdfast.core.fleet.agents.wire import AgentStart, AgentStarted, AgentSync, AgentSyncAnswer
from holdfast.core.fleet.model import Host
from holdfast.core.task import DEFAULT_PROJECT
from holdfast.errors import InvalidInput, StoreUnavailable
from holdfast.fleet.agents.door import AgentDoor
from holdfast.fleet.simulated.dice import Dice
from holdfast.fleet.simulated.faults import NO_FAULTS, SimulatedFaults, check_faults
from holdfast.fleet.simulated.host import SimulatedHost
from holdfast.fleet.simulated.link import Desk, LossyLink, PerfectLink
from holdfast.fleet.simulated.registration import ACTOR, entries_of, register
from holdfast.fleet.simulated.skew import SkewedClock
from holdfast.queue.by import By
from holdfast.store.store import Store

HOSTS_MAX: Final = 50_000
STARTED_AT_ONCE: Final = 50
START_SECONDS: Final = 0.05
"""Hosts start in groups: each start is a transaction."""
log: Final = logging.getLogger("holdfast.fleet.simulated")
AGENT_LOG: Final = logging.getLogger("holdfast.agent")
"""Thousands of agents write to it, so it is quiet unless the level is debug."""


class Simulation(msgspec.Struct, frozen=True, kw_only=True):
    """What to simulate."""

    hosts: int
    seed: int = 0
    faults: SimulatedFaults = NO_FAULTS
    project: str = DEFAULT_PROJECT


def check_simulation(simulation: Simulation) -> Simulation:
    """InvalidInput or BadConfig names the value that is wrong."""
    if not 1 <= simulation.hosts <= HOSTS_MAX:
        raise InvalidInput(f"there are {simulation.hosts} simulated hosts: give 1 to {HOSTS_MAX}")
    check_faults(simulation.faults)
    return simulation


class DoorDesk:
    """The door of this process (`link.Desk`). An error that an HTTP client would not see as such is one of
    the connection."""

    def __init__(self, door: AgentDoor) -> None:
        self._door = door
        self._by = By(actor=ACTOR)

    async def start(self, host_id: str, start: AgentStart) -> AgentStarted:
        try:
            return await self._door.agents.start(host_id, start, self._by)
        except StoreUnavailable as error:
            raise GatewayUnavailable(str(error)) from error

    async def sync(self, host_id: str, sync: AgentSync) -> AgentSyncAnswer:
        try:
            return await self._door.sync(host_id, sync)
        except StoreUnavailable as error:
            raise GatewayUnavailable(str(error)) from error


class SimulatedFleet:
    """The simulated hosts of one process."""

    def __init__(
        self,
        store: Store,
        door: AgentDoor,
        clock: Clock,
        simulation: Simulation,
        *,
        run_id: str,
        runs: bool = True,
    ) -> None:
        """`run_id`: names this run. Journals are in memory, so those of another run are gone. Without `runs`
        the hosts are only registered: workers of Celery run them."""
        self._runs = runs
        self._store, self._door, self._clock = store, door, clock
        self._simulation = check_simulation(simulation)
        self._run_id = run_id
        self.hosts: list[SimulatedHost] = []

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Registers the hosts, and runs them in the background."""
        simulation = self._simulation
        hosts = await register(
            self._store,
            entries_of(simulation.hosts, simulation.seed),
            project=simulation.project,
            heartbeat_seconds=self._door.agents.heartbeat_seconds,
        )
        if not self._runs:
            yield
            return
        self.hosts = made_hosts(
            hosts, DoorDesk(self._door), self._clock, simulation, run_id=self._run_id
        )
        log.info("%d simulated hosts start", len(self.hosts))
        level = AGENT_LOG.level
        AGENT_LOG.setLevel(logging.DEBUG if log.isEnabledFor(logging.DEBUG) else logging.ERROR)
        starting = asyncio.create_task(self._start(), name="holdfast-simulated-hosts")
        try:
            yield
        finally:
            starting.cancel()
            AGENT_LOG.setLevel(level)
            for host in self.hosts:
                host.stop()
            await asyncio.gather(starting, return_exceptions=True)

    async def _start(self) -> None:
        for at in range(0, len(self.hosts), STARTED_AT_ONCE):
            for host in self.hosts[at : at + STARTED_AT_ONCE]:
                host.start()
            await self._clock.sleep(START_SECONDS)


def made_hosts(
    hosts: Sequence[Host], desk: Desk, clock: Clock, simulation: Simulation, *, run_id: str
) -> list[SimulatedHost]:
    """The hosts, not started."""
    faults = simulation.faults
    made = []
    for host in hosts:
        dice = Dice(simulation.seed, host.name)
        own_clock = SkewedClock.drawn(clock, faults.skew, dice) if faults.skew else clock
        link = (
            LossyLink(host.id, desk, faults, dice.stream("link"), own_clock)
            if faults.has_link_faults
            else PerfectLink(host.id, desk)
        )
        made.append(
            SimulatedHost(
                host.name,
                host.id,
                link,
                own_clock,
                dice,
                boot=f"{run_id}-{host.name}",
                crash=faults.crash,
                is_broken=dice.stream("broken").chance(faults.broken),
            )
        )
    return made
