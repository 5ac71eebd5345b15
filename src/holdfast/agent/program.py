"""The agent as a program: folder, identity, enrolment, loop.

Promises: a host is enrolled once, with a join token; after that its own credential counts. An enrolment is
repeated until a gateway answers. The folder is free again when `run` returns. Commands that run go on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from holdfast.agent.agent import FATAL, Agent
from holdfast.agent.executor import HostExecutor
from holdfast.agent.facts import read_facts
from holdfast.agent.files import Disk
from holdfast.agent.http import HttpTransport
from holdfast.agent.journal import HostJournal
from holdfast.agent.link import LocalHost
from holdfast.agent.settings import AgentSettings, TransportKind
from holdfast.agent.state import Identity, StateFolder
from holdfast.agent.websocket import WebSocketTransport
from holdfast.client.address import read_addresses
from holdfast.client.http import Http
from holdfast.clock import Clock
from holdfast.core.address import shown_url
from holdfast.core.fleet.agents.wire import AgentEnrol
from holdfast.core.ids import Ids
from holdfast.core.watching import backoff_seconds
from holdfast.errors import BadConfig, HoldfastError, InvalidInput

TRIES: Final = 1
log = logging.getLogger("holdfast.agent")


class AgentOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line says."""

    gateway: str
    token: str | None = None
    """A join token, for the enrolment."""
    state: Path
    name: str
    labels: dict[str, str] = {}
    transport: TransportKind = TransportKind.HTTP
    settings: AgentSettings = AgentSettings()


class Program:
    """One agent of this machine."""

    def __init__(
        self, options: AgentOptions, clock: Clock, ids: Ids, *, disk: Disk | None = None
    ) -> None:
        self._options, self._clock, self._ids = options, clock, ids
        self._disk = disk or Disk()
        self._folder = StateFolder(options.state, self._disk)
        self._agent: Agent | None = None
        self._is_stopped = asyncio.Event()

    def stop(self) -> None:
        """Ends `run`."""
        self._is_stopped.set()
        if self._agent is not None:
            self._agent.stop()

    async def run(self, ready: Callable[[str], None] = log.info) -> None:
        """Serves until `stop`. `ready` gets a line when the agent is enrolled."""
        addresses = read_addresses(self._options.gateway)
        self._folder.take()
        host = LocalHost(self._disk)
        http = Http(
            addresses.urls,
            None,
            self._clock,
            self._ids,
            tries=TRIES,
            verify=addresses.tls.context(),
        )
        is_http = self._options.transport is TransportKind.HTTP
        transport = HttpTransport(http) if is_http else WebSocketTransport(http)
        try:
            journal = HostJournal(host, self._folder.journal, self._ids.secret())
            await journal.load()
            options = self._options
            facts = read_facts(options.settings.version, options.name)
            identity = await self._identity(transport, journal, facts, host.boot_id)
            if identity is None:
                return
            transport.use(identity.credential)
            self._agent = Agent(
                transport,
                journal,
                HostExecutor(host, self._folder.runs),
                self._clock,
                jitter=self._ids.random_unit,
                settings=options.settings,
                facts=facts,
                session=self._ids.secret()[:16],
            )
            ready(f"agent of host {identity.host} ({identity.host_id}), state in {options.state}")
            if self._is_stopped.is_set():
                return
            await self._agent.run()
        finally:
            await transport.close()
            await host.close()
            self._folder.leave()

    async def _identity(
        self,
        transport: HttpTransport,
        journal: HostJournal,
        facts: dict[str, object],
        boot_id: str,
    ) -> Identity | None:
        """The identity of this host; made with the join token if there is none. None: stopped before."""
        known = self._folder.identity()
        if known is not None:
            return known
        options = self._options
        if options.token is None:
            raise BadConfig(
                "this host is not enrolled: give a join token as --token or HOLDFAST_TOKEN; "
                "`holdfast node join-token --kind agent` makes one"
            )
        transport.use(options.token)
        request = AgentEnrol(
            host=options.name,
            boot_id=boot_id or "unknown",
            journal_id=journal.journal_id,
            version=options.settings.version,
            facts=facts,
            labels=options.labels,
        )
        failures = 0
        while not self._is_stopped.is_set():
            try:
                enrolled = await transport.enrol(request)
            except (*FATAL, InvalidInput):
                raise
            except HoldfastError as error:
                if failures & (failures + 1) == 0:
                    log.warning("%s; trying again", error)
                pause = backoff_seconds(failures, self._ids.random_unit())
                failures += 1
                await self._clock.wait(self._is_stopped, pause)
                continue
            identity = Identity(
                host=options.name,
                host_id=enrolled.host_id,
                credential=enrolled.credential,
                gateway=", ".join(map(shown_url, read_addresses(options.gateway).urls)),
            )
            self._folder.keep(identity)
            return identity
        return None
