"""Hosts that a process of ours has to reach: an agent here serves a host while the host has work.

Promises: one process at a time serves a host: the lease `drive:<host id>` says which. A call for a host that
another process serves returns at once. If the process dies, its lease ends, and the next call goes on with
what the journal of the host says. The agent is the one of every host (`holdfast.agent`), so a drive follows
the same protocol: a command starts once.
`HostSession` is what this drive and that of a server (`holdfast.fleet.ssh.driver`) do with a host.
Never: decides about retries; the store does.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, NamedTuple

from holdfast.agent.agent import Agent
from holdfast.agent.link import HostGone
from holdfast.agent.ports import Executor, Journal
from holdfast.agent.settings import AgentSettings
from holdfast.bus.port import FEED, Bus
from holdfast.clock import Clock
from holdfast.core.fleet.model import Host
from holdfast.errors import BadConfig, MissingExtra, WaitTimeout
from holdfast.fleet.agents.door import AgentDoor
from holdfast.fleet.agents.local import add_local_agents
from holdfast.fleet.agents.transport import DoorTransport
from holdfast.fleet.hosts import scripts as host_scripts
from holdfast.fleet.jobs.outbox import DRIVE
from holdfast.fleet.jobs.waiting import open_execution
from holdfast.primitives.locks import Locks
from holdfast.store.store import Store

LEASE_SECONDS: Final = 20.0
LOOK_SECONDS: Final = 1.0
"""How often a drive looks whether its host has work, without a hint."""
ACTOR: Final = "drive"
log: Final = logging.getLogger("holdfast.fleet")


class Rig(NamedTuple):
    """What the agent of a host stands on, while the host can be reached."""

    journal: Journal
    executor: Executor
    settings: AgentSettings = AgentSettings()
    facts: Mapping[str, object] = {}


Reach = Callable[[Host], AbstractAsyncContextManager[Rig]]
"""Reaches a host."""
UntilIdle = Callable[[Agent], Coroutine[Any, Any, object]]
"""Returns when the agent has nothing more to do."""


class HostSession:
    """What every driver does with a host that it reaches: the agent of the host, here, until it is idle."""

    def __init__(
        self, store: Store, door: AgentDoor, clock: Clock, jitter: Callable[[], float]
    ) -> None:
        """`jitter`: random numbers in [0, 1)."""
        self._store, self._door, self._clock, self._jitter = store, door, clock, jitter

    async def run(
        self,
        host: Host,
        reached: AbstractAsyncContextManager[Rig],
        transport: DoorTransport,
        until_idle: UntilIdle,
    ) -> None:
        """HostGone if the host cannot be reached, which is noted, or is lost."""
        try:
            await self._run(host, reached, transport, until_idle)
        except (HostGone, BadConfig, MissingExtra):
            await self._note(host, self._store.now())
            raise

    async def _run(
        self,
        host: Host,
        reached: AbstractAsyncContextManager[Rig],
        transport: DoorTransport,
        until_idle: UntilIdle,
    ) -> None:
        async with reached as rig:
            if host.unreachable_at is not None:
                await self._note(host, None)
            agent = Agent(
                transport,
                rig.journal,
                rig.executor,
                self._clock,
                jitter=self._jitter,
                settings=rig.settings,
                facts=rig.facts,
            )
            running = asyncio.create_task(agent.run(), name=f"fleet-agent-{host.name}")
            idle = asyncio.create_task(until_idle(agent), name=f"fleet-idle-{host.name}")
            try:
                await asyncio.wait({running, idle}, return_when=asyncio.FIRST_COMPLETED)
                if idle.done():
                    idle.result()
                agent.stop()
                await running
            finally:
                running.cancel()
                idle.cancel()
                await asyncio.gather(running, idle, return_exceptions=True)

    async def _note(self, host: Host, unreachable_at: float | None) -> None:
        """An execution that waits for a host which cannot be reached leaves the window of its job."""
        await self._store.run(
            lambda _dialect, _ids, _now: host_scripts.note_reach(host.id, unreachable_at)
        )


class HostDrive:
    """Serves hosts of one kind. `drive` is a `holdfast.fleet.pipeline.Drive`."""

    def __init__(
        self,
        store: Store,
        bus: Bus,
        clock: Clock,
        door: AgentDoor,
        locks: Locks,
        *,
        reach: Reach,
        jitter: Callable[[], float],
    ) -> None:
        """`door`: its loop runs. `jitter`: random numbers in [0, 1)."""
        self._store, self._bus, self._clock = store, bus, clock
        self._door, self._locks = door, locks
        self._reach = reach
        self._session = HostSession(store, door, clock, jitter)

    async def drive(self, execution_id: str) -> None:
        """Serves the host of an execution until it has nothing that is due."""
        found = await self._store.read(lambda: open_execution(execution_id))
        if found is None:
            return
        host = found.host
        try:
            async with self._locks.hold(DRIVE + host.id, ttl=LEASE_SECONDS, wait=0.0):
                await self._serve(host)
        except WaitTimeout:
            log.debug("host %s is served by another process", host.name)

    async def _serve(self, host: Host) -> None:
        heartbeat_seconds = self._door.agents.heartbeat_seconds
        await self._store.run(
            lambda _dialect, _ids, now: add_local_agents([host], heartbeat_seconds, now)
        )
        await self._session.run(
            host,
            self._reach(host),
            DoorTransport(self._door, host.id, ACTOR),
            lambda agent: self._until_idle(host.id, agent),
        )

    async def _until_idle(self, host_id: str, agent: Agent) -> None:
        """Returns when nothing is due for the host and nothing runs on it."""
        changed = asyncio.Event()
        leave = self._bus.subscribe(lambda _hint: changed.set(), FEED)
        try:
            while agent.runs.by_token or not await self._is_idle(host_id):
                await self._clock.wait(changed, LOOK_SECONDS)
                changed.clear()
        finally:
            leave()

    async def _is_idle(self, host_id: str) -> bool:
        for news in await self._door.agents.news([host_id]):
            is_due = news.due_at is not None and news.due_at <= self._store.now()
            return news.slot[1] is None and not is_due
        return False
