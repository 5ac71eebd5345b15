"""Transactions that begin an agent: it enrols with a join token, and it starts with its credential.

Promises: the host, its node, the credential, the agent's row and the events are one transaction. A repeated
enrolment whose answer was lost gets another credential; a host that has a used one is refused, unless its
agent has ended (`holdfast.fleet.hosts.scripts`). Every start is a new incarnation; runs outlive it. Two boots
of a host that take turns are two hosts with one identity: the node is quarantined. Locks the host before its
node.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from holdfast.core import node_identity
from holdfast.core.errors import Forbidden
from holdfast.core.event import NewEvent
from holdfast.core.fleet.agents.wire import AgentEnrol, AgentStart
from holdfast.core.fleet.hosts.entry import HostEntry
from holdfast.core.fleet.model import Agent, Host, HostDriver, HostState
from holdfast.core.ids import Ids
from holdfast.core.node_identity import NodeKind
from holdfast.errors import Conflict, NotFound
from holdfast.fleet.agents.rows import own, read_slots
from holdfast.fleet.hosts import scripts as host_scripts
from holdfast.fleet.rows import AGENTS
from holdfast.store.beside import Beside, begin, end
from holdfast.store.port import Dialect
from holdfast.store.script import Script, call, call_rows
from holdfast.store.scripts.work import Work
from holdfast.sync.access.token import Token
from holdfast.sync.nodes import scripts as node_scripts
from holdfast.sync.nodes.scripts import NewNode, RegistrationOutcome

LOST_HEARTBEATS: Final = 2.0
"""The node of an agent counts as late after this many times the time of a node: its poll is held."""


def enrol(
    dialect: Dialect,
    ids: Ids,
    now: float,
    *,
    project: str,
    request: AgentEnrol,
    facts_json: str,
    token: Token,
    digest: str,
    join_token_id: str,
    heartbeat_seconds: float,
    actor: str,
    beside: Beside | None,
) -> Script[tuple[Host, RegistrationOutcome]]:
    """Makes the agent of a host, and the host if the project has none of the name."""
    there = yield from host_scripts.named(project, [request.host])
    is_new = not there or there[0].state is HostState.GONE
    has_agent = not is_new and bool((yield call(own("get_agent"), id=there[0].id)))
    if not is_new and there[0].driver is not HostDriver.AGENT:
        # Commands and secrets for the host would go to the holder of the join token.
        raise Conflict(
            f"host '{request.host}' is driven by {there[0].driver.value}, not by an agent: an operator has "
            f"to change that (holdfast host edit {request.host} --driver agent), or choose another --name"
        )
    entry = HostEntry(
        name=request.host,
        driver=HostDriver.AGENT.value,
        labels=dict(request.labels) if is_new else None,
    )
    work = Work(now)
    put = yield from host_scripts.put(work, ids, project, [entry], actor=actor)
    [host] = put.hosts
    yield from host_scripts.write_facts([(host.id, facts_json)])
    new = NewNode(
        id=host.id,
        project=project,
        kind=NodeKind.AGENT.value,
        labels={"host": host.name},
        boot_id=request.boot_id,
        heartbeat_seconds=heartbeat_seconds * LOST_HEARTBEATS,
        outlives=True,
        readmits=bool(there) and not has_agent,
    )
    started = AgentStart(
        boot_id=request.boot_id, journal_id=request.journal_id, version=request.version
    )
    try:
        registered = yield from node_scripts.register(
            dialect,
            ids,
            now,
            new=new,
            token=replace(token, node_id=host.id, principal=f"agent:{host.name}", name=host.name),
            digest=digest,
            join_token_id=join_token_id,
            beside=_AgentRow(host, started, work.events, beside),
        )
    except Forbidden:
        raise Forbidden(
            f"host '{host.name}' has an agent: start it with its credential, or remove the host first"
        ) from None
    return host, registered


def start(
    dialect: Dialect,
    ids: Ids,
    now: float,
    *,
    host_id: str,
    request: AgentStart,
    facts_json: str | None,
    token: Token,
    digest: str,
    heartbeat_seconds: float,
    beside: Beside | None,
) -> Script[tuple[Host, RegistrationOutcome, int]]:
    """A start of an agent. Returns the host, the registration and the newest token of its slot. `digest`:
    of a credential that is issued to no one, for a host that the server drives itself."""
    hosts = yield from host_scripts.lock([host_id])
    if not hosts:
        raise NotFound(f"there is no host {host_id}: enrol it")
    [host] = hosts
    slots = yield from read_slots([host.id], lock=False)
    if host.state is HostState.GONE and (host.id not in slots or slots[host.id].claim_id is None):
        raise NotFound(f"host '{host.name}' was removed: add it again, then enrol it")
    rows = yield call(own("get_agent"), id=host.id)
    before = AGENTS.read(rows[0]) if rows else None
    if host.driver is HostDriver.AGENT and before is None:
        raise NotFound(f"host '{host.name}' has no agent: enrol it")
    if facts_json is not None:
        yield from host_scripts.write_facts([(host.id, facts_json)])
    new = NewNode(
        id=host.id,
        project=host.project,
        kind=NodeKind.AGENT.value,
        labels={"host": host.name},
        boot_id=request.boot_id,
        session=request.session,
        heartbeat_seconds=heartbeat_seconds * LOST_HEARTBEATS,
        outlives=True,
    )
    registered = yield from node_scripts.register(
        dialect,
        ids,
        now,
        new=new,
        token=token,
        digest=digest,
        join_token_id=None,
        beside=_AgentRow(host, request, [], beside),
    )
    return host, registered, slots[host.id].fence if host.id in slots else 0


class _AgentRow(Beside):
    """Writes the row of the agent beside its registration."""

    __slots__ = ("_events", "_host", "_inner", "_request")

    def __init__(
        self, host: Host, request: AgentStart, events: Sequence[NewEvent], inner: Beside | None
    ) -> None:
        self._host = host
        self._request = request
        self._events = events
        self._inner = inner

    def before(self, now: float) -> Script[None]:
        yield from begin(self._inner, now)

    def after(self, outcome: object, now: float) -> Script[Sequence[NewEvent]]:
        assert isinstance(outcome, RegistrationOutcome)
        match outcome.start:
            case (
                node_identity.Started(identity=identity) | node_identity.Repeated(identity=identity)
            ):
                yield from self._write(identity.incarnation, now)
            case _:
                pass
        more = yield from end(self._inner, outcome, now)
        return (*self._events, *more)

    def _write(self, incarnation: int, now: float) -> Script[None]:
        host_id = self._host.id
        slots = yield from read_slots([host_id], lock=False)
        fence = slots[host_id].fence if host_id in slots else 0
        rows = yield call(own("get_agent"), id=host_id)
        before = AGENTS.read(rows[0]) if rows else None
        agent = _started(before, self._host, self._request, fence, now)
        agent = replace(agent, incarnation=incarnation, seq=0, is_closed=False, seen_at=now)
        yield call_rows(own("put_agent"), [AGENTS.row(agent)])


def _started(
    before: Agent | None, host: Host, request: AgentStart, fence: int, now: float
) -> Agent:
    """The agent after a start. `fence`: the newest token of the slot, about which another journal knows
    nothing."""
    if before is None:
        return Agent(
            host_id=host.id,
            project=host.project,
            journal_id=request.journal_id,
            journal_token=fence,
            boot_id=request.boot_id,
            boot_token=fence,
            version=request.version,
            seen_at=now,
            enrolled_at=now,
        )
    has_journal = before.journal_id == request.journal_id
    has_boot = before.boot_id == request.boot_id
    return replace(
        before,
        journal_id=request.journal_id,
        journal_token=before.journal_token if has_journal else fence,
        boot_id=request.boot_id,
        boot_token=before.boot_token if has_boot else fence,
        version=request.version or before.version,
    )
