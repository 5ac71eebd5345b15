"""Hosts with what is known of them beside their rows: the agent, and the execution that holds the slot.

Promises: one statement for the agents, one for their nodes and one for the slots of a page. Never: changes
anything.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.core.check import check_page
from holdfast.core.fleet.hosts.service import HostStanding, standing_of
from holdfast.core.fleet.model import SLOT, Agent, Host
from holdfast.core.fleet.rules import FleetRules
from holdfast.core.node_identity import NodeState
from holdfast.fleet.rows import AGENTS, HOSTS, own
from holdfast.store.script import Script, call
from holdfast.store.store import Store


class Slot(msgspec.Struct, frozen=True):
    """The one execution that may run on a host."""

    execution_id: str
    token: int
    since: float


class HostDetails(msgspec.Struct, frozen=True):
    """A host, its agent and its slot."""

    host: Host
    agent: Agent | None = None
    slot: Slot | None = None
    is_live: bool = False
    """Whether the agent was heard a short while ago."""
    standing: HostStanding | None = None
    """None: it was not looked at."""


class HostReads:
    """Reads of hosts for the API and the command line."""

    def __init__(self, store: Store, rules: FleetRules) -> None:
        self._store = store
        self._rules = rules

    async def details(self, hosts: Sequence[Host]) -> list[HostDetails]:
        """The hosts in their order."""
        if not hosts:
            return []
        return await self._store.read(lambda: _details(hosts, self._since(), self._rules))

    async def silent(self, project: str, *, after: str = "", limit: int = 100) -> list[Host]:
        """One page by name of the active hosts whose agents are not live."""
        check_page(limit)
        return await self._store.read(lambda: _silent(project, self._since(), after, limit))

    def _since(self) -> float:
        """An agent that was heard since then is live."""
        return self._store.now() - self._rules.silent_seconds


def _silent(project: str, since: float, after: str, limit: int) -> Script[list[Host]]:
    rows = yield call(own("silent_hosts"), project=project, since=since, after=after, limit=limit)
    return HOSTS.read_all(rows)


def _details(hosts: Sequence[Host], since: float, rules: FleetRules) -> Script[list[HostDetails]]:
    ids = [host.id for host in hosts]
    rows = yield call(own("agents_of_hosts"), ids=ids)
    agents = {agent.host_id: agent for agent in AGENTS.read_all(rows)}
    rows = yield call(own("slots_of_hosts"), resources=[SLOT + host_id for host_id in ids])
    slots = {resource: Slot(*slot) for resource, *slot in rows}
    rows = yield call(own("node_states"), ids=ids)
    states = {host_id: NodeState(state) for host_id, state in rows}
    found = []
    for host in hosts:
        agent, slot = agents.get(host.id), slots.get(SLOT + host.id)
        standing = standing_of(
            host,
            agent,
            states.get(host.id),
            is_pushed=rules.is_pushed(host.driver),
            is_busy=slot is not None,
            since=since,
        )
        is_live = agent is not None and agent.seen_at >= since
        found.append(HostDetails(host, agent, slot, is_live, standing))
    return found
