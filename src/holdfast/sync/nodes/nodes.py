"""Use cases of nodes with an identity: register, heartbeat, list, change of state.

Promises: a credential is returned once, by the registration that makes it. A heartbeat says that the node
lives; it never extends the lease of a task. Never: logs a secret.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

import msgspec

from holdfast.core import codec, node_identity as rules
from holdfast.core.check import check_choice, check_name, check_page, check_text, check_whole
from holdfast.core.event import Position
from holdfast.core.hub_rules import RULES, HubRules
from holdfast.core.node_identity import NodeKind, NodeState
from holdfast.core.rights import Role
from holdfast.core.speaking import Voice
from holdfast.core.task import Task
from holdfast.core.token import TokenKind, make_token, token_digest
from holdfast.core.wire import WHOLE_MAX, check_new_id, check_project
from holdfast.errors import InvalidInput
from holdfast.queue.by import By
from holdfast.store.backends import secret_ids
from holdfast.store.script import Script, call
from holdfast.store.store import Store
from holdfast.sync.access.token import Token
from holdfast.sync.errors import NodeFenced
from holdfast.sync.nodes import scripts, seen
from holdfast.sync.nodes.node_task import why_lost
from holdfast.sync.nodes.scripts import NewNode
from holdfast.sync.rows import RegisteredNode, names_of, own, read_node
from holdfast.sync.speaking import check_voice
from holdfast.sync.sync_task import SyncRow

CAPABILITIES_MAX: Final = 100
LABELS_MAX: Final = 100
RESUME_MAX: Final = 500
LOAD_MAX: Final = 1_000_000
LOST_SECONDS: Final = 3_600.0
"""How long a heartbeat names a run that the server has ended."""
LOST_MAX: Final = 100


class Registration(msgspec.Struct, frozen=True, kw_only=True):
    """A start of a node, as it describes it."""

    node: str
    project: str
    kind: str = NodeKind.PLUGIN.value
    capabilities: Sequence[str] = ()
    labels: Mapping[str, str] = {}
    boot_id: str | None = None
    resume: Sequence[tuple[str, int]] = ()
    """(name of the task, fence) of runs that it goes on with."""
    rotate: bool = False
    sent_at: float | None = None
    """The time of the node's clock."""

    def __post_init__(self) -> None:
        check_new_id("nodeId", self.node)
        check_project("projectId", self.project)
        check_choice("nodeType", self.kind, NodeKind)
        if self.boot_id is not None:
            check_name("bootId", self.boot_id)
        for field, items, most in (
            ("capabilities", self.capabilities, CAPABILITIES_MAX),
            ("labels", self.labels, LABELS_MAX),
            ("resume", self.resume, RESUME_MAX),
        ):
            if len(items) > most:
                raise InvalidInput(f"{field} has {len(items)} items: at most {most} are allowed")
        for name in self.capabilities:
            check_name("capabilities", name)
        for key, value in self.labels.items():
            check_name("labels", key)
            check_text("labels", value, most=200)
        for _, fence in self.resume:
            check_whole("fence", fence, least=0, most=WHOLE_MAX)


class HeldTask(msgspec.Struct, frozen=True):
    """A task that the node runs."""

    task_id: str
    """The name that the node uses."""
    fence: int
    expires_in_seconds: float


class Registered(msgspec.Struct, frozen=True):
    """The answer to a registration."""

    node: str
    incarnation: int
    credential: str | None
    clock: int
    position: Position
    resumed: list[HeldTask]
    lost: list[HeldTask]
    is_repeat: bool


class LostTask(msgspec.Struct, frozen=True):
    """A task that the node does not run any more, though it did not end the run."""

    task_id: str
    fence: int
    reason: str


class NodeBeat(msgspec.Struct, frozen=True):
    """The answer to a heartbeat."""

    node: RegisteredNode
    clock: int
    held: list[HeldTask]
    lost: list[LostTask] = []
    """Those of the last hour. Each is repeated: an answer may be lost."""


class NodeView(msgspec.Struct, frozen=True):
    """A node in a list."""

    row: RegisteredNode
    is_live: bool
    running: int
    lag_events: int | None
    """Events that it has not read yet; None when it said no position of this history."""
    lag_seconds: float | None = None
    """The age of the first event that it has not read."""


class Nodes:
    """The use cases of nodes with an identity."""

    def __init__(self, store: Store, hub_rules: HubRules = RULES) -> None:
        self._store = store
        self._rules = hub_rules
        self._secrets = secret_ids()

    async def register(
        self, registration: Registration, by: By, *, join_token_id: str | None = None
    ) -> Registered:
        """Starts an incarnation. NodeFenced if the node is quarantined or revoked, or if two processes use
        its identity. `join_token_id`: the join token that pays for a new node. It starts no node that
        exists (Forbidden), but a repeat of the registration gets another credential."""
        by.of_unversioned("a node")
        store = self._store
        raw = bytes.fromhex(self._secrets.secret() + self._secrets.secret())
        secret = make_token(TokenKind.NODE, raw)
        new = await self._resolved(registration)
        head = await store.feed.head()
        script = partial(
            scripts.register,
            new=new,
            token=_token(registration, store, join_token_id or by.actor),
            digest=token_digest(secret),
            join_token_id=join_token_id,
            beside=by.beside,
        )
        outcome = await store.run(script)
        start = outcome.start
        assert not isinstance(start, rules.Taken), "the script refuses it"
        if isinstance(start, rules.Cloned | rules.ShutOut):
            raise NodeFenced(_why_fenced(registration.node, start))
        names = await store.read(lambda: names_of([*outcome.resumed, *outcome.lost]))
        now = store.now()
        return Registered(
            registration.node,
            start.identity.incarnation,
            secret if outcome.has_credential else None,
            outcome.clock,
            head,
            [_held(task, names, now) for task in outcome.resumed],
            [_held(task, names, now) for task in outcome.lost],
            isinstance(start, rules.Repeated),
        )

    async def _resolved(self, registration: Registration) -> NewNode:
        """With the ids of the tasks that the node names."""
        names = [name for name, _ in registration.resume]
        rows = await self._store.read(lambda: scripts.named(registration.project, names))
        ids = {name: name for name in names} | dict(rows)
        return NewNode(
            id=registration.node,
            project=registration.project,
            kind=registration.kind,
            capabilities=tuple(registration.capabilities),
            labels=dict(registration.labels),
            boot_id=registration.boot_id,
            resume={ids[name]: fence for name, fence in registration.resume},
            rotate=registration.rotate,
            skew_ms=rules.skew_ms(registration.sent_at, self._store.now()),
            heartbeat_seconds=self._rules.heartbeat_seconds,
        )

    async def get(self, node: str) -> RegisteredNode:
        """UnknownNode if it has not registered."""
        return await self._store.read(lambda: read_node(node))

    async def check_speaks(self, voice: Voice) -> RegisteredNode:
        """The node, if it may speak: NodeFenced for an older incarnation or one that is shut out."""
        row = await self.get(voice.node)
        check_voice(row, voice)
        return row

    async def beat(
        self,
        voice: Voice,
        *,
        local_clock: int = 0,
        position: str | None = None,
        running: int | None = None,
        slots: int | None = None,
        sent_at: float | None = None,
    ) -> NodeBeat:
        """The heartbeat of a node. `sent_at` is the time of its clock."""
        for field, value in (("running", running), ("slots", slots)):
            if value is not None:
                check_whole(field, value, least=0, most=LOAD_MAX)
        if position is not None:
            position = str(_position(position))
        load = {"busy": running, "workers": slots}
        info: dict[str, object] = {**scripts.rhythm(self._rules.heartbeat_seconds)}
        info |= {name: value for name, value in load.items() if value is not None}
        row, clock = await self._store.run(
            partial(
                seen.see,
                voice=voice,
                local_clock=local_clock,
                position=position,
                skew_ms=rules.skew_ms(sent_at, self._store.now()),
                info_json=codec.dumps(info),
            )
        )
        held = await self._store.read(lambda: _read_held(row.id, self._store.now()))
        lost = await self._store.read(lambda: _read_lost(row, self._store.now()))
        return NodeBeat(row, clock, held, lost)

    async def note(self, row: RegisteredNode, voice: Voice) -> None:
        """A request of the node shows that it lives. Written at most twice in the time of a heartbeat."""
        silent = self._store.now() - row.seen_at
        if row.lost_at is not None or silent >= self._rules.heartbeat_seconds / 2:
            await self._store.run(partial(seen.note, voice=voice))

    async def list(
        self, project: str, *, state: str | None = None, after: str = "", limit: int = 100
    ) -> list[NodeView]:
        """One page of the nodes of a project, by name."""
        check_page(limit)
        if state is not None:
            check_choice("state", state, NodeState)
        rows, running = await self._store.read(
            lambda: scripts.page(project, state=state, after=after, limit=limit)
        )
        return [*await self._views(rows, running)]

    async def view(self, node: str) -> NodeView:
        row = await self.get(node)
        running = await self._store.read(lambda: scripts.counts([node]))
        return (await self._views([row], running))[0]

    async def find(self, ids: Sequence[str]) -> dict[str, NodeView]:
        """Those of these nodes that have registered. Processes of the store have no identity."""
        rows, running = await self._store.read(lambda: scripts.registered(ids))
        return {view.row.id: view for view in await self._views(rows, running)}

    async def _views(
        self, rows: Sequence[RegisteredNode], running: Mapping[str, int]
    ) -> Sequence[NodeView]:
        head = await self._store.feed.head()
        offsets = [_offset(row, head) for row in rows]
        behind = sorted(
            {offset for offset in offsets if offset is not None and offset < head.offset}
        )
        unread = await self._store.read(lambda: scripts.unread_since(behind)) if behind else {}
        now = self._store.now()
        lags = [
            None
            if read is None
            else (max(0, head.offset - read), max(0.0, now - unread.get(read, now)))
            for read in offsets
        ]
        return [
            _view(row, running[row.id], since=now - self._rules.silent_seconds, lag=lag)
            for row, lag in zip(rows, lags, strict=True)
        ]

    async def set_state(self, node: str, state: NodeState, by: By) -> RegisteredNode:
        """Cordons, drains, quarantines or revokes a node, or makes it live again."""
        by.of_unversioned("a node")
        row = await self.get(node)
        return await self._store.run(
            partial(
                scripts.change_state,
                node=row,
                state=state,
                actor=by.actor,
                reason=by.reason,
                beside=by.beside,
            )
        )


def _token(registration: Registration, store: Store, created_by: str) -> Token:
    return Token(
        id="tok_" + store.ids.task(store.now()).replace("-", ""),
        kind=TokenKind.NODE,
        name=registration.node,
        principal=f"node:{registration.node}",
        roles=(Role.WORKER.value,),
        projects=(registration.project,),
        node_id=registration.node,
        created_by=created_by,
    )


def _why_fenced(node: str, start: rules.Cloned | rules.ShutOut) -> str:
    if isinstance(start, rules.Cloned):
        return f"two processes use the identity of node '{node}' in turn: it is quarantined"
    if start.state is rules.NodeState.REVOKED:
        return f"node '{node}' is revoked and does not return: register one of another name"
    return f"node '{node}' is {start.state}: an operator has to admit it again"


def _position(text: str) -> Position:
    try:
        return Position.parse(text)
    except ValueError as error:
        raise InvalidInput(f"cursor: {error}") from None


def _held(task: Task, names: Mapping[str, str], now: float) -> HeldTask:
    return HeldTask(names[task.id], task.fence, max(0.0, (task.lease_until or now) - now))


def _read_held(node: str, now: float) -> Script[list[HeldTask]]:
    tasks: list[Task] = yield from scripts.held(node)
    names = yield from names_of(tasks)
    return [_held(task, names, now) for task in tasks]


def _read_lost(node: RegisteredNode, now: float) -> Script[list[LostTask]]:
    found = yield call(
        own("lost_claims"),
        node=node.id,
        incarnation=node.incarnation,
        since=now - LOST_SECONDS,
        limit=LOST_MAX,
    )
    rows = {row.task_id: row for row in (SyncRow(*values) for values in found)}
    tasks: list[Task] = (yield call("get_tasks", ids=list(rows))) if rows else []
    return [
        LostTask(row.client_id, row.claim_fence or 0, why_lost(task, row, node))
        for task in tasks
        for row in [rows[task.id]]
    ]


def _offset(row: RegisteredNode, head: Position) -> int | None:
    """How far the node has read this history. None: it has not said."""
    position = None if row.position is None else _position(row.position)
    return position.offset if position is not None and position.epoch == head.epoch else None


def _view(
    row: RegisteredNode, running: int, *, since: float, lag: tuple[int, float] | None
) -> NodeView:
    is_live = row.lost_at is None and row.seen_at > since
    events, seconds = (None, None) if lag is None else lag
    return NodeView(row, is_live, running, events, seconds)
