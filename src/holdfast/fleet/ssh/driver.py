"""Drives hosts over SSH: the loop of the agent, in the server, with journal and processes on the host.

Promises: a host has one session of this process at a time. A session that breaks is opened again while the
slot of the host is held, so a command whose session was lost is looked at later. A host that another
process drives is left to it. Nothing starts twice: the agent's journal is on the host, and an older session
changes nothing there.
Never: an error for an execution because its host is away; it waits until its job's time is over.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final

from msgspec.structs import replace

from holdfast.agent.executor import HostExecutor
from holdfast.agent.journal import HostJournal
from holdfast.agent.link import HostGone
from holdfast.agent.settings import AgentSettings
from holdfast.clock import Clock
from holdfast.core.errors import NodeFenced
from holdfast.core.fleet.agents.wire import AgentSync, AgentSyncAnswer
from holdfast.core.fleet.model import Host, HostDriver
from holdfast.core.ids import Ids
from holdfast.core.watching import backoff_seconds
from holdfast.errors import BadConfig, HoldfastError, MissingExtra
from holdfast.fleet.agents.door import AgentDoor
from holdfast.fleet.agents.transport import DoorTransport
from holdfast.fleet.driving import HostSession, Rig
from holdfast.fleet.hosts import scripts as host_scripts
from holdfast.fleet.jobs.waiting import waiting_execution
from holdfast.fleet.ssh.rows import orphans
from holdfast.fleet.ssh.target import SshOptions, read_target
from holdfast.store.store import Store

ACTOR: Final = "ssh"
ALLOW: Final = ("*", "?*")
"""The server judges command types; the pattern beside `*` is for shells."""
ORPHAN_SECONDS: Final = 60.0
"""A held slot whose agent was silent for longer has no driver."""
LOOK_SECONDS: Final = 30.0
TRIES: Final = 4
"""Attempts to reach a host in whose slot something runs. After them its place is free for others, and the
look for orphans comes back to it."""
LOGINS_MAX: Final = 16
"""Logins at once of one process. More of them make each other slow, up to the time limit of a login."""
POLL_SECONDS: Final = 2.0
log: Final = logging.getLogger("holdfast.fleet.ssh")


class SshTransport(DoorTransport):
    """The door of this process, for an agent that ends when its host has nothing to do."""

    def __init__(self, door: AgentDoor, host_id: str) -> None:
        super().__init__(door, host_id, ACTOR)
        self.is_idle = asyncio.Event()
        """Set when the host has nothing more to do."""

    async def sync(self, sync: AgentSync) -> AgentSyncAnswer:
        is_waiting = bool(sync.accepts or sync.running or sync.results or sync.refuses)
        wait_max = sync.wait_seconds if is_waiting or sync.command_acks else 0.0
        answer = await self._answer(sync, wait_max)
        if not is_waiting and not answer.offers and not answer.probe and answer.blocks is None:
            self.is_idle.set()
        return answer


class _SshExecutor(HostExecutor):
    poll_seconds: float | None = POLL_SECONDS


class SshDriver:
    """The hosts that this process drives. A `Drive` of the pipeline."""

    def __init__(
        self,
        store: Store,
        door: AgentDoor,
        clock: Clock,
        ids: Ids,
        options: SshOptions | None = None,
    ) -> None:
        self._store, self._door, self._clock, self._ids = store, door, clock, ids
        self._options = options or SshOptions()
        self._driven: dict[str, asyncio.Task[None]] = {}
        self._logins = asyncio.Semaphore(LOGINS_MAX)
        self._session = HostSession(store, door, clock, ids.random_unit)

    async def __call__(self, execution_id: str) -> None:
        """Sees an execution through, with all others that wait for its host."""
        waiting = await self._store.read(lambda: waiting_execution(execution_id))
        if waiting is not None and waiting.driver is HostDriver.SSH:
            await asyncio.shield(self._task(waiting.execution.host_id))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Drives hosts whose driver has died, until the block ends."""
        looking = asyncio.create_task(self._look_after_orphans(), name="holdfast-ssh-orphans")
        try:
            yield
        finally:
            tasks = [looking, *self._driven.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _look_after_orphans(self) -> None:
        while True:
            try:
                await self._take_up(self._store.now() - ORPHAN_SECONDS)
            except HoldfastError as error:
                log.warning("hosts without a driver are looked for again later: %s", error)
            except Exception:
                log.exception("hosts without a driver are looked for again later")
            await self._clock.sleep(LOOK_SECONDS)

    async def _take_up(self, before: float) -> None:
        for host_id in await self._store.read(lambda: orphans(before)):
            self._task(host_id)

    def _task(self, host_id: str) -> asyncio.Task[None]:
        task = self._driven.get(host_id)
        if task is None:
            task = asyncio.create_task(self._drive(host_id), name=f"holdfast-ssh-{host_id}")
            self._driven[host_id] = task
            task.add_done_callback(lambda _: self._driven.pop(host_id, None))
        return task

    async def _drive(self, host_id: str) -> None:
        """Until nothing waits for the host and nothing runs there."""
        for nth in range(TRIES):
            hosts = await self._store.read(lambda: host_scripts.pinned([host_id]))
            if host_id not in hosts:
                return
            try:
                await self._serve(hosts[host_id])
                return
            except (HostGone, BadConfig, MissingExtra) as error:
                log.warning("host %s: %s", hosts[host_id].name, error)
            except NodeFenced as error:
                log.info("host %s: %s", hosts[host_id].name, error)
                return
            news = await self._door.agents.news([host_id])
            if not news or news[0].slot[1] is None:
                return  # Nothing runs there: the outbox announces what waits again.
            await self._clock.sleep(backoff_seconds(nth, self._ids.random_unit()))

    async def _serve(self, host: Host) -> None:
        transport = SshTransport(self._door, host.id)
        await self._session.run(
            host,
            reach(host, self._options, self._ids, self._logins),
            transport,
            lambda _agent: transport.is_idle.wait(),
        )


@asynccontextmanager
async def reach(
    host: Host, options: SshOptions, ids: Ids, logins: AbstractAsyncContextManager[object]
) -> AsyncIterator[Rig]:
    """A session with a host. HostGone if it cannot be reached. `logins`: entered for the login. The journal
    belongs to the id of the host, which no other store has: several hosts, also of several stores, may share
    a machine and user."""
    try:
        # On use: most servers drive no hosts, and the package takes a while to import.
        from holdfast.fleet.ssh.channel import SshHost
    except ModuleNotFoundError as error:
        raise MissingExtra(
            "hosts of the driver ssh need another package: pip install 'holdfast[ssh]'"
        ) from error
    target = read_target(host.address, host.name)
    own = replace(options, folder=f"{options.folder}/{host.id}")
    link = SshHost(target, own, ids.secret())
    try:
        async with logins:
            await link.open()
        yield Rig(
            HostJournal(link, f"{link.folder}/journal", ids.secret()),
            _SshExecutor(link, f"{link.folder}/runs", is_root=link.is_root),
            AgentSettings(version="ssh", allow=ALLOW, starts_again=0),
            link.facts,
        )
    finally:
        await link.close()
