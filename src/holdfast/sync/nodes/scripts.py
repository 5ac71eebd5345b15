"""Transactions of nodes with an identity: start and change of state (`seen.py`: heartbeat).

Promises: a start, the end of the claims of earlier incarnations, the credential and the events are one
transaction. The node is locked before its tasks (lock order), so each claim of it is seen or comes after.
Never: makes a secret; its digest is an argument.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple, assert_never

import msgspec
from msgspec.structs import replace

from holdfast.core import codec, node_identity as rules
from holdfast.core.errors import Forbidden, Unauthenticated
from holdfast.core.event import NewEvent
from holdfast.core.ids import Ids
from holdfast.core.node_identity import NodeIdentity, NodeState
from holdfast.core.task import Task
from holdfast.errors import Conflict
from holdfast.store.beside import Beside, begin, end
from holdfast.store.port import Dialect, Raced
from holdfast.store.script import Script, call, call_rows
from holdfast.store.scripts import apply
from holdfast.store.scripts.nodes import open_preferred
from holdfast.store.scripts.work import Work
from holdfast.sync.access.token import Token
from holdfast.sync.log import LogRow, write_log
from holdfast.sync.rows import RegisteredNode, event_of, own, read_project


def rhythm(heartbeat_seconds: float) -> dict[str, float]:
    """What a node's description says about its heartbeats. Its tasks have leases, which it renews apart."""
    return {"lease_seconds": heartbeat_seconds, "heartbeat_seconds": heartbeat_seconds}


class NewNode(msgspec.Struct, frozen=True, kw_only=True):
    """A registration."""

    id: str
    project: str
    kind: str
    capabilities: Sequence[str] = ()
    labels: Mapping[str, str] = {}
    boot_id: str | None = None
    session: str = ""
    """The process, if another incarnation has fenced it: several may run in one boot of a machine."""
    resume: Mapping[str, int] = {}
    """Fences of runs that the new incarnation goes on with, by task id."""
    rotate: bool = False
    skew_ms: int | None = None
    heartbeat_seconds: float = rules.HEARTBEAT_SECONDS
    """A node that missed three heartbeats is declared lost, as a process is."""
    outlives: bool = False
    """Whether its runs go on when it starts again, and each of its starts is a new one: an agent, whose
    commands have processes of their own."""
    readmits: bool = False
    """Whether a join token may start it although it exists: see `node_identity.start`."""


class RegistrationOutcome(msgspec.Struct, frozen=True):
    """The outcome of a registration. `has_credential`: the offered one is in force."""

    start: rules.Start
    clock: int
    has_credential: bool
    resumed: Sequence[Task] = ()
    lost: Sequence[Task] = ()


def register(
    dialect: Dialect,
    ids: Ids,
    now: float,
    *,
    new: NewNode,
    token: Token,
    digest: str,
    join_token_id: str | None,
    beside: Beside | None,
) -> Script[RegistrationOutcome]:
    """Judges a start and writes it. `token` is stored if the node needs a credential."""
    yield from begin(beside, now)
    work = Work(now)
    rows = yield call(own("lock_node"), id=new.id)
    row = RegisteredNode(*rows[0]) if rows else None
    _check_place(row, new)
    held = yield from _lock_held(new.id)
    uses = None if row is None else (yield from _credential_uses(row))
    start = _judged(row, new, uses, now, is_join=join_token_id is not None)
    match start:
        case rules.Taken():
            raise Forbidden(
                f"node '{new.id}' exists: use its own credential, or join under another name"
            )
        case rules.ShutOut():
            answer = RegistrationOutcome(start, 0, has_credential=False)
        case rules.Cloned(identity=identity):
            yield from _set_state(new.id, identity, row.token_id if row else None)
            yield from open_preferred(work, new.id)
            work.events.append(_node_event("node.cloned", now, new, identity))
            answer = RegistrationOutcome(start, 0, has_credential=False)
        case rules.Repeated(identity=identity):
            if uses is not None and join_token_id and join_token_id not in uses.made_by:
                yield from _spend(join_token_id, now)
            has_credential = yield from _issue(start.needs_credential, None, token, digest, now)
            if has_credential:
                again = replace(identity, issued_at=now)
                yield from _write(new, again, token.id, now, identity.incarnation)
            answer = RegistrationOutcome(
                start, 0, has_credential, [t for t in held if t.node == new.id]
            )
        case rules.Started(identity=identity):
            if join_token_id is not None:
                yield from _spend(join_token_id, now)
            earlier = None if row is None else row.id
            if new.readmits and earlier is not None:
                yield call(own("revoke_tokens"), node=earlier, now=now)
            has_credential = yield from _issue(start.needs_credential, earlier, token, digest, now)
            token_id = token.id if has_credential else row.token_id if row else None
            yield from _write(new, identity, token_id, now, row.incarnation if row else 0)
            yield call(own("add_project"), id=new.project, now=now)
            if row is not None:
                yield from open_preferred(work, new.id)
                work.events.append(_node_event("node.fenced", now, new, row.identity))
            work.events.append(_node_event("node.registered", now, new, identity))
            resume = {task.id: task.fence for task in held} if new.outlives else new.resume
            kept, lost = fence_claims(work, held, new.id, resume)
            answer = RegistrationOutcome(start, 0, has_credential, kept, lost)
        case _:
            assert_never(start)
    work.events += yield from end(beside, answer, now)
    clock = (yield from read_project(new.project)).clock
    then = partial(_log_start, new, clock) if isinstance(start, rules.Started) else None
    yield from apply.finish(work, ids.record(now), dialect, then=then)
    return replace(answer, clock=clock)


def _judged(
    row: RegisteredNode | None,
    new: NewNode,
    uses: _CredentialUses | None,
    now: float,
    *,
    is_join: bool,
) -> rules.Start:
    # A node that outlives its starts speaks by its credential, which it has, unless it joins.
    may_lack = is_join or not new.outlives
    return rules.start(
        row.identity if row else None,
        boot_id=new.boot_id,
        now=now,
        session=new.session,
        rotate=new.rotate,
        is_join=is_join,
        is_unused=may_lack and uses is not None and uses.is_unused,
        repeats=not new.outlives,
        readmits=new.readmits,
    )


def _log_start(new: NewNode, clock: int, now: float) -> Script[tuple[()]]:
    row = LogRow("register", "accepted")
    yield from write_log([row], project=new.project, node=new.id, clock=clock, now=now)
    return ()


def _spend(token_id: str, now: float) -> Script[None]:
    """Takes one use of the join token that pays for the start."""
    if not (yield call(own("spend_join_token"), id=token_id, now=now)):
        raise Unauthenticated("the join token is used up or has ended: ask for another one")


class _CredentialUses(NamedTuple):
    """The credentials of a node that exists."""

    made_by: frozenset[str]
    """The join tokens that paid for them, or the actors that made them."""
    is_unused: bool


def _credential_uses(row: RegisteredNode) -> Script[_CredentialUses]:
    rows = yield call(own("credential_uses"), node=row.id)
    is_unused = bool(rows) and all(used_at is None for _, used_at in rows)
    return _CredentialUses(frozenset(made_by for made_by, _ in rows), is_unused)


def _check_place(row: RegisteredNode | None, new: NewNode) -> None:
    if row is None:
        return
    if row.registered_at is None:
        raise Conflict(f"'{new.id}' is the name of a process of this store: choose another one")
    if row.project != new.project:
        raise Conflict(f"node '{new.id}' belongs to another project: choose another name")


def fence_claims(
    work: Work, held: Sequence[Task], node: str, resume: Mapping[str, int]
) -> tuple[list[Task], list[Task]]:
    """Ends the claims of earlier incarnations as deaths, except those that the new one resumes."""
    mine = [task for task in held if task.node == node and task.lease_until is not None]
    kept = [task for task in mine if resume.get(task.id) == task.fence]
    lost = [task for task in mine if resume.get(task.id) != task.fence]
    # The process that held the lease is gone: the lease ends now.
    work.load(replace(task, lease_until=min(task.lease_until or 0.0, work.now)) for task in lost)
    apply.expire_ended(work, [task.id for task in lost])
    return kept, lost


def _issue(
    needs_credential: bool, earlier: str | None, token: Token, digest: str, now: float
) -> Script[bool]:
    """Stores the offered credential if one is needed. The credentials of the node `earlier` are accepted for
    a while. A repeat of a start ends none: it may come late, after the node has the answer to another one."""
    if not needs_credential:
        return False
    if earlier is not None:
        until = now + rules.OLD_CREDENTIAL_SECONDS
        yield call(own("end_tokens"), node=earlier, until=until)
    columns = replace(token, created_at=now).columns()
    yield call("holdfast.sync.access:add_token", digest=digest, **columns)
    return True


def _lock_held(node: str) -> Script[list[Task]]:
    held: list[Task] = yield call(own("held_by_node"), node=node)
    return (yield call("lock_tasks", ids=[task.id for task in held]))


def _write(
    new: NewNode, identity: NodeIdentity, token_id: str | None, now: float, before: int
) -> Script[None]:
    """Writes the node if its incarnation is still `before`. Else another transaction has registered it."""
    written = yield call(
        own("write_node"),
        before=before,
        id=new.id,
        project=new.project,
        kind=new.kind,
        state=identity.state.value,
        incarnation=identity.incarnation,
        boots_json=codec.dumps(msgspec.to_builtins(identity.boots)),
        started_at=identity.started_at,
        info_json=codec.dumps(rhythm(new.heartbeat_seconds)),
        capabilities_json=codec.dumps(sorted(set(new.capabilities))),
        labels_json=codec.dumps(dict(new.labels)),
        token_id=token_id,
        token_at=identity.issued_at,
        skew_ms=new.skew_ms,
        now=now,
    )
    if not written:
        raise Raced


def _set_state(node: str, identity: NodeIdentity, token_id: str | None) -> Script[None]:
    yield call(
        own("set_node_state"),
        id=node,
        state=identity.state.value,
        boots_json=codec.dumps(msgspec.to_builtins(identity.boots)),
        incarnation=identity.incarnation,
        token_id=token_id,
    )


def _node_event(kind: str, now: float, new: NewNode, identity: NodeIdentity) -> NewEvent:
    data = {"node": new.id, "kind": new.kind, "incarnation": identity.incarnation}
    return event_of(kind, now, new.project, data)


def change_state(
    dialect: Dialect,
    ids: Ids,
    now: float,
    *,
    node: RegisteredNode,
    state: NodeState,
    actor: str,
    reason: str,
    beside: Beside | None,
) -> Script[RegisteredNode]:
    """Puts the node into another state. A node that is revoked is fenced and has no credential."""
    yield from begin(beside, now)
    work = Work(now)
    row = RegisteredNode(*(yield call(own("lock_node"), id=node.id))[0])
    if row.state == NodeState.REVOKED.value and state is not NodeState.REVOKED:
        raise Conflict(
            f"node '{node.id}' is revoked and does not return: register one of another name with a join token"
        )
    held = yield from _lock_held(node.id)
    is_new = row.state != state.value
    if is_new:
        identity = replace(row.identity, state=state, boots=())
        token_id = row.token_id
        if state is NodeState.REVOKED:
            identity = replace(identity, incarnation=identity.incarnation + 1)
            fence_claims(work, held, node.id, {})
            yield call(own("revoke_tokens"), node=node.id, now=now)
            token_id = None
        if not rules.may_claim(state):
            yield from open_preferred(work, node.id)
        yield from _set_state(node.id, identity, token_id)
        kind = "node.revoked" if state is NodeState.REVOKED else "node.state"
        data = {"node": node.id, "state": state.value, "actor": actor, "reason": reason}
        work.events.append(event_of(kind, now, row.project, data))
        row = replace(row, state=state.value, incarnation=identity.incarnation, token_id=token_id)
    yield from end(beside, row, now)
    yield from apply.finish(work, ids.record(now), dialect)
    return row


def counts(nodes: Sequence[str]) -> Script[Counter[str]]:
    """The number of tasks that run on each node."""
    rows = yield call(own("running_by_node"), nodes=list(nodes))
    return Counter({row[0]: row[1] for row in rows})


def unread_since(offsets: Sequence[int]) -> Script[dict[int, float]]:
    """When the first event after each offset was written."""
    rows = yield call_rows(own("unread_since"), list(enumerate(offsets)))
    return {offsets[nth]: at for nth, at in rows if at is not None}


def held(node: str) -> Script[list[Task]]:
    """The tasks that run on a node."""
    return (yield call(own("held_by_node"), node=node))


def named(project: str, names: Sequence[str]) -> Script[list[tuple[str, str]]]:
    """(name, task id) of the names that a project has."""
    if not names:
        return []
    rows = yield call(own("named_tasks"), project=project, client_ids=list(names))
    return [tuple(row) for row in rows]


def registered(ids: Sequence[str]) -> Script[tuple[list[RegisteredNode], Counter[str]]]:
    rows = yield call(own("registered_nodes"), ids=list(ids))
    nodes = [RegisteredNode(*row) for row in rows]
    return nodes, (yield from counts([node.id for node in nodes]))


def page(
    project: str, *, state: str | None, after: str, limit: int
) -> Script[tuple[list[RegisteredNode], Counter[str]]]:
    rows = yield call(own("list_nodes"), project=project, state=state, after=after, limit=limit)
    nodes = [RegisteredNode(*row) for row in rows]
    return nodes, (yield from counts([node.id for node in nodes]))
