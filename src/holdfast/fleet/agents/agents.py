"""The use cases of agents: enrol, start, sync, and that they are served.

Promises: a credential is returned once, by the enrolment that makes it. Syncs of any number of agents are one
transaction; an agent that may not speak gets its error, and no other agent notices. While agents are served,
the store hears it every `SERVE_SECONDS`: leases of executions end only then (`store/scripts/followers.py`).
Never: logs a secret.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Final

import msgspec
from msgspec.structs import replace

from holdfast.core import node_identity
from holdfast.core.check import check_name, check_text
from holdfast.core.errors import NodeFenced
from holdfast.core.event import NewEvent
from holdfast.core.fleet.agents.wire import (
    AgentEnrol,
    AgentEnrolled,
    AgentStart,
    AgentStarted,
    AgentSyncAnswer,
)
from holdfast.core.fleet.hosts.entry import check_facts, check_host_name, check_labels
from holdfast.core.fleet.model import AFTER_SLOTS, OUTAGE_SECONDS, SLOT
from holdfast.core.fleet.rules import NOTED_SECONDS, RULES, FleetRules
from holdfast.core.gate import NODE
from holdfast.core.ids import Ids
from holdfast.core.retry import unit_jitter
from holdfast.core.rights import Role
from holdfast.core.token import TokenKind, make_token, token_digest
from holdfast.core.wire import check_project
from holdfast.fleet.agents import enrol as scripts, figures
from holdfast.fleet.agents.batch import sync_batch
from holdfast.fleet.agents.outputs import Redact
from holdfast.fleet.agents.parts import (
    AgentMessage,
    BlockSource,
    CommandSource,
    SyncAnswer,
    SyncParts,
)
from holdfast.fleet.agents.rows import own
from holdfast.fleet.agents.sources import JobCommands, SecretsOfJobs, StoredBlocks
from holdfast.fleet.secret_values import SecretValues
from holdfast.metrics import Meter, NullMeter
from holdfast.queue.by import By
from holdfast.store.backends import secret_ids
from holdfast.store.port import Dialect
from holdfast.store.script import Script, call
from holdfast.store.scripts.work import Work
from holdfast.store.store import Store
from holdfast.sync.access.token import Token
from holdfast.sync.nodes.scripts import RegistrationOutcome
from holdfast.sync.rows import event_of

SERVE_SECONDS: Final = NOTED_SECONDS
"""How often the store hears that agents are served, and which were seen since."""
JITTER_SHARE: Final = 0.1
VERSION_CHARS_MAX: Final = 100


class HostNews(msgspec.Struct, frozen=True):
    """What a host has to do, as far as a held poll needs it."""

    host_id: str
    waiting: int
    """Executions that wait for it."""
    due_at: float | None
    """When the first of them is due."""
    slot: tuple[int, str | None, str | None]
    """(fence, execution, status of its task) of its slot."""
    incarnation: int = 0
    node_state: str = ""
    host_state: str = ""
    block_epoch: int = 0


class Agents:
    """The use cases of agents."""

    def __init__(
        self,
        store: Store,
        rules: FleetRules = RULES,
        *,
        command_of: CommandSource | None = None,
        blocks: BlockSource | None = None,
        secrets: SecretValues | None = None,
        redact: Redact | None = None,
        meter: Meter | None = None,
        on_changed: Callable[[bool], None] = lambda has_ended: None,
    ) -> None:
        """`on_changed` runs after a sync that wrote events; `has_ended`: an execution has ended."""
        self._store = store
        self._rules = rules
        self._command_of = command_of or JobCommands()
        self._blocks = blocks or StoredBlocks()
        self._on_changed = on_changed
        self._secrets_of_jobs = SecretsOfJobs(secrets or SecretValues())
        self._redact = redact or self._secrets_of_jobs.redact
        self._meter: Meter = NullMeter() if meter is None else meter
        self._secrets = secret_ids()
        self._epoch = ""
        self._seen: set[str] = set()

    @property
    def heartbeat_seconds(self) -> float:
        """How often an idle agent speaks."""
        return self._rules.heartbeat_seconds

    def heartbeat_of(self, host_id: str, seq: int) -> float:
        """With jitter: agents that began together do not stay together."""
        return self.heartbeat_seconds * (1.0 - JITTER_SHARE * unit_jitter(host_id, seq))

    async def enrol(
        self, project: str, request: AgentEnrol, by: By, *, join_token_id: str
    ) -> AgentEnrolled:
        """Makes the agent of a host. Forbidden if the host has one. NodeFenced if it is quarantined."""
        by.of_unversioned("an agent")
        check_project("project", project)
        check_host_name(request.host)
        check_labels(request.labels)
        _check_start(request.boot_id, request.journal_id, request.version)
        secret = self._secret()
        script = partial(
            scripts.enrol,
            project=project,
            request=request,
            facts_json=check_facts(request.facts),
            token=replace(self._token(join_token_id), projects=(project,)),
            digest=token_digest(secret),
            join_token_id=join_token_id,
            heartbeat_seconds=self.heartbeat_seconds,
            actor=by.actor,
            beside=by.beside,
        )
        host, registered = await self._store.run(script)
        incarnation = _incarnation(host.name, registered)
        return AgentEnrolled(
            host_id=host.id,
            agent_id=host.id,
            credential=secret if registered.has_credential else "",
            incarnation=incarnation,
            heartbeat_seconds=self.heartbeat_of(host.id, 0),
            server_epoch=await self.epoch(),
        )

    async def start(self, host_id: str, request: AgentStart, by: By) -> AgentStarted:
        """Starts a new incarnation of an agent. NodeFenced if it is quarantined or revoked."""
        _check_start(request.boot_id, request.journal_id, request.version)
        if request.session:
            check_name("session", request.session)
        script = partial(
            scripts.start,
            host_id=host_id,
            request=request,
            facts_json=check_facts(request.facts) if request.facts else None,
            token=self._token(by.actor),
            digest=token_digest(self._secret()),
            heartbeat_seconds=self.heartbeat_seconds,
            beside=by.beside,
        )
        host, registered, fence = await self._store.run(script)
        return AgentStarted(
            host_id=host.id,
            incarnation=_incarnation(host.name, registered),
            heartbeat_seconds=self.heartbeat_of(host.id, 0),
            server_epoch=await self.epoch(),
            last_token=fence,
        )

    async def sync(self, messages: Sequence[AgentMessage]) -> list[SyncAnswer]:
        """Applies checked syncs, at most one of each agent, in one transaction. The answer to an agent whose
        rows another transaction holds is RowHeld. Raises it if a row is held that is found late."""
        if not messages:
            return []
        parts = SyncParts(
            rules=self._rules,
            command_of=self._command_of,
            blocks=self._blocks,
            redact=self._redact,
            environment_of=self._secrets_of_jobs.environment,
            server_epoch=await self.epoch(),
            heartbeat_of=self.heartbeat_of,
        )
        script = partial(sync_batch, messages=messages, parts=parts)
        synced = await self._store.run(script, wait_seconds=0.0)
        self.saw([message.host_id for message in messages])
        figures.count(self._meter, synced.figures)
        if synced.has_changed:
            self._on_changed(synced.has_ended)
        return synced.answers

    def saw(self, hosts: Collection[str]) -> None:
        """Agents that spoke without a sync of their own, e.g. because nothing was new."""
        self._seen.update(hosts)

    async def serve(self) -> float:
        """Says that agents are served, and when they were seen. Returns the end of the latest outage."""
        if not self._seen and not await self._store.read(_has_agents):
            return 0.0  # a store without agents
        seen, self._seen = sorted(self._seen), set()
        try:
            since = await self._store.run(
                partial(_serve, seen=seen, grace_seconds=self._rules.outage_grace_seconds)
            )
        except BaseException:
            self._seen.update(seen)
            raise
        self._meter.gauge(figures.SLOTS, await self._store.read(_count_slots))
        return since

    def count_polls(self, held: int) -> None:
        self._meter.gauge(figures.POLLS, held)

    async def news(self, hosts: Sequence[str]) -> list[HostNews]:
        """What these hosts have to do."""
        return await self._store.read(lambda: _news(hosts))

    def now(self) -> float:
        """The time of the store."""
        return self._store.now()

    def idle_answer(self, host_id: str, seq: int, block_epoch: int) -> AgentSyncAnswer:
        """The answer to an agent for which nothing is new."""
        return AgentSyncAnswer(
            seq=seq,
            heartbeat_seconds=self.heartbeat_of(host_id, seq),
            lease_seconds=self._rules.lease_seconds,
            server_epoch=self._epoch,
            block_epoch=block_epoch,
        )

    async def epoch(self) -> str:
        """Names the history of the store. An agent that sees another one knows that a backup was restored."""
        if not self._epoch:
            self._epoch = (await self._store.feed.head()).epoch
        return self._epoch

    def _secret(self) -> str:
        raw = bytes.fromhex(self._secrets.secret() + self._secrets.secret())
        return make_token(TokenKind.AGENT, raw)

    def _token(self, created_by: str) -> Token:
        return Token(
            id="tok_" + self._store.ids.task(self._store.now()).replace("-", ""),
            kind=TokenKind.AGENT,
            name="",
            principal="",
            roles=(Role.AGENT.value,),
            projects=(),
            created_by=created_by,
        )


def _check_start(boot_id: str, journal_id: str, version: str) -> None:
    check_name("boot_id", boot_id)
    check_name("journal_id", journal_id)
    check_text("version", version, most=VERSION_CHARS_MAX)


def _incarnation(host: str, registered: RegistrationOutcome) -> int:
    match registered.start:
        case node_identity.Started(identity=identity) | node_identity.Repeated(identity=identity):
            return identity.incarnation
        case node_identity.Cloned():
            raise NodeFenced(
                f"two processes use the identity of host '{host}' in turn, as two hosts or containers of one "
                "image do: it is quarantined"
            )
        case node_identity.ShutOut(state=state):
            raise NodeFenced(
                f"the agent of host '{host}' is {state}: an operator has to admit it again"
            )
        case node_identity.Taken():
            raise AssertionError("the script refuses it")


def _serve(
    dialect: Dialect, ids: Ids, now: float, *, seen: Sequence[str], grace_seconds: float
) -> Script[float]:
    rows = yield call(own("serve_agents"), now=now, grace=grace_seconds, silent=OUTAGE_SECONDS)
    if seen:
        lost = yield call(own("lost_agents"), ids=list(seen))
        yield call(own("see_agents"), ids=list(seen), now=now)
        yield call(own("see_nodes"), ids=list(seen), now=now)
        work = Work(now)
        work.events += [_is_back(row[0], row[1], row[2], now) for row in lost]
        yield from work.save(dialect, ids.record(now))
    return float(rows[0][0])


def _is_back(node: str, project: str, state: str, now: float) -> NewEvent:
    data = {"node": node, "state": state, "actor": f"node:{node}", "reason": "it is back"}
    return event_of("node.state", now, project, data)


def _has_agents() -> Script[bool]:
    """Also if all of them have been silent for long: their executions are lost in the end."""
    return bool((yield call(own("any_agent"))))


def _count_slots() -> Script[int]:
    rows = yield call(own("count_slots"), first=SLOT, last=AFTER_SLOTS)
    n: int = rows[0][0]
    return n


def _news(hosts: Sequence[str]) -> Script[list[HostNews]]:
    rows = yield call(own("agents_news"), ids=list(hosts), prefix=NODE, slot=SLOT)
    return [
        HostNews(host_id, waiting, due_at, (fence or 0, claim_id, status), *standing)
        for host_id, waiting, due_at, fence, claim_id, status, *standing in rows
    ]
