"""Operations of nodes and of the exchange (`/api/v2/sync`)."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.core.check import check_whole
from holdfast.core.exchange.handshake import ClientEntry
from holdfast.core.exchange.item_wire import ItemBody, read_item
from holdfast.core.intervention import AckOutcome
from holdfast.core.node_identity import NodeKind
from holdfast.core.rights import Operation, PrincipalKind
from holdfast.core.speaking import Voice
from holdfast.core.wire import WHOLE_MAX, make_cursor, parse_id_cursor, time_text
from holdfast.gateway.operations import sync_views as views
from holdfast.gateway.operations.call import Answer, Call
from holdfast.gateway.operations.sync_call import speaker
from holdfast.sync.nodes import Registration
from holdfast.sync.rows import RegisteredNode, names_of, read_project
from holdfast.sync.speaking import heard

O = Operation  # noqa: E741


class Resumed(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    task_id: str
    fence: int


class RegisterBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    node_id: str
    node_type: str = NodeKind.PLUGIN.value
    project_id: str | None = None
    capabilities: list[str] = []
    boot_id: str | None = None
    labels: dict[str, str] = {}
    resume: list[Resumed] = []
    rotate: bool = False
    timestamp: int | None = None
    """The time of the node's clock in milliseconds."""


class Load(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    running: int | None = None
    slots: int | None = None


class Ack(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    id: str
    outcome: AckOutcome
    detail: str = ""


class NodeBeatBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    incarnation: int | None = None
    local_clock: int = 0
    cursor: str | None = None
    load: Load = Load()
    acks: list[Ack] = []
    timestamp: int | None = None
    """The time of the node's clock in milliseconds."""


class Base(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    hash: str | None = None
    dirty: bool = False


class HandshakeBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    node_id: str | None = None
    incarnation: int | None = None
    local_clock: int = 0
    task_versions: dict[str, int] = {}
    bases: dict[str, Base] = {}
    cursor: str | None = None
    limit: int = 500


class PullBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    node_id: str | None = None
    incarnation: int | None = None
    task_ids: list[str] | None = None
    cursor: str | None = None
    limit: int = 500


class PushBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    node_id: str | None = None
    incarnation: int | None = None
    tasks: list[ItemBody]
    local_clock: int = 0
    atomic: bool = False


class RawPush(PushBody, frozen=True, kw_only=True, rename="camel"):
    """A push whose items are read one by one: one that is not valid does not fail the others."""

    tasks: list[msgspec.Raw]  # type: ignore[assignment]


def _heartbeat_ms(call: Call) -> int:
    return int(call.services.rules.heartbeat_seconds * 1000)


async def register(call: Call, body: RegisterBody) -> Answer:
    """Starts an incarnation of a node."""
    project = body.project_id if body.project_id is not None else call.home
    allowed = call.authorise(
        O.NODES_REGISTER, project=project, owner_node=body.node_id, noun="project", id=project
    )
    registration = Registration(
        node=body.node_id,
        project=project,
        kind=body.node_type,
        capabilities=body.capabilities,
        labels=body.labels,
        boot_id=body.boot_id,
        resume=[(run.task_id, run.fence) for run in body.resume],
        rotate=body.rotate,
        sent_at=sent_at(body.timestamp),
    )
    by = call.by(
        O.NODES_REGISTER, project=project, subject=f"node:{body.node_id}", actor=allowed.actor
    )
    is_join = call.principal.kind is PrincipalKind.JOIN
    started = await call.services.nodes.register(
        registration, by, join_token_id=call.token_id if is_join else None
    )
    call.services.wake()
    answer: dict[str, Any] = {
        "success": True,
        "serverClock": started.clock,
        "serverTime": time_text(call.services.now()),
        "nodeId": started.node,
        "incarnation": started.incarnation,
        **views.place(started.position),
        "heartbeatIntervalMs": _heartbeat_ms(call),
        "resumed": [views.held_task(run) for run in started.resumed],
        "lost": [
            {"taskId": run.task_id, "fence": run.fence, "reason": "expired"} for run in started.lost
        ],
    }
    if started.credential is not None:
        answer["credential"] = started.credential
    return Answer(answer, secret=started.credential is not None)


async def node_heartbeat(call: Call, node_id: str, body: NodeBeatBody) -> Answer:
    """Says that a node lives. It never extends the lease of a task."""
    _, voice = await speaker(call, node_id, O.SYNC_RUN, incarnation=body.incarnation)
    await acknowledge(call, voice, body.acks)
    beat = await call.services.nodes.beat(
        voice,
        local_clock=body.local_clock,
        position=body.cursor,
        running=body.load.running,
        slots=body.load.slots,
        sent_at=sent_at(body.timestamp),
    )
    row = beat.node
    return Answer(
        {
            "success": True,
            "serverClock": beat.clock,
            "serverTime": time_text(call.services.now()),
            "incarnation": row.incarnation,
            "state": row.state,
            "heartbeatIntervalMs": _heartbeat_ms(call),
            "commands": await commands(call, row),
            "held": [views.held_task(run) for run in beat.held],
            "lost": [
                {"taskId": run.task_id, "fence": run.fence, "reason": run.reason}
                for run in beat.lost
            ],
        }
    )


def sent_at(timestamp: int | None) -> float | None:
    """The time that a message names, for display."""
    if timestamp is None:
        return None
    return check_whole("timestamp", timestamp, least=0, most=WHOLE_MAX) / 1000


async def acknowledge(call: Call, voice: Voice, acks: list[Ack]) -> None:
    for ack in acks:
        await call.services.store.interventions.acknowledge(
            ack.id, ack.outcome, ack.detail, node=voice.node, guard=lambda: heard(voice)
        )


async def commands(call: Call, row: RegisteredNode) -> list[dict[str, Any]]:
    """The commands that wait for the node. Each comes again until it is acknowledged."""
    store = call.services.store
    waiting = await store.interventions.deliver(row.id)
    if not waiting:
        return []
    tasks = await store.reads.get([command.task_id for command in waiting])
    names = await store.read(lambda: names_of(tasks.values()))
    now = call.services.now()
    return [
        views.command(command, names.get(command.task_id, command.task_id), now)
        for command in waiting
    ]


async def list_nodes(
    call: Call, project: str, state: str | None, limit: int, after: str | None
) -> Answer:
    own = call.principal.node
    call.authorise(O.NODES_READ, project=project, owner_node=own, noun="project", id=project)
    place = f"nodes:{project}:{state}"
    start = "" if after is None else parse_id_cursor(after, of=place)
    nodes = call.services.nodes
    rows = await nodes.list(project, state=state, after=start, limit=limit)
    if own is not None:
        # A node reads itself only.
        rows = [view for view in (await nodes.find([own])).values() if view.row.project == project]
    row = await call.services.store.read(lambda: read_project(project))
    now = call.services.now()
    has_more = own is None and len(rows) == limit
    return Answer(
        {
            "nodes": [views.node(view, now) for view in rows],
            "nextCursor": make_cursor((rows[-1].row.id,), of=place) if has_more else None,
            "serverClock": row.clock,
        }
    )


async def handshake(call: Call, project: str, body: HandshakeBody) -> Answer:
    row, _ = await speaker(
        call, body.node_id, O.SYNC_EXCHANGE, project=project, incarnation=body.incarnation
    )
    bases = {
        name: ClientEntry(0, is_dirty=base.dirty, hash=base.hash)
        for name, base in body.bases.items()
    }
    answer = await call.services.exchange.handshake(
        row, project, body.task_versions, bases=bases, cursor=body.cursor, limit=body.limit
    )
    lists = answer.handshake
    return Answer(
        {
            "success": True,
            "serverClock": answer.clock,
            **views.place(answer.cursor),
            "needsPull": list(lists.needs_pull),
            "needsPush": list(lists.needs_push),
            "inSync": list(lists.in_sync),
            "conflicts": [
                {
                    "taskId": conflict.task_id,
                    "kind": conflict.kind.value,
                    "localVersion": conflict.local_version,
                    "serverVersion": conflict.server_version,
                    "conflictId": None,
                }
                for conflict in lists.conflicts
            ],
            "newTasks": list(lists.new_tasks),
            "deleted": [
                {
                    "taskId": gone.task_id,
                    "version": gone.version,
                    "deletedAt": views.maybe_time(gone.deleted_at),
                }
                for gone in lists.deleted
            ],
            "more": answer.next_cursor is not None,
            "nextCursor": answer.next_cursor,
            "reset": views.reset(answer.reset),
        }
    )


async def pull(call: Call, project: str, body: PullBody) -> Answer:
    row, _ = await speaker(
        call, body.node_id, O.SYNC_EXCHANGE, project=project, incarnation=body.incarnation
    )
    answer = await call.services.exchange.pull(
        row, project, names=body.task_ids, cursor=body.cursor, limit=body.limit
    )
    now = call.services.now()
    return Answer(
        {
            "success": True,
            "serverClock": answer.clock,
            **views.place(answer.cursor),
            "tasks": [views.task(seen, now) for seen in answer.tasks],
            "deleted": views.deleted(answer.deleted),
            "missing": answer.missing,
            "more": answer.next_cursor is not None or answer.is_cut,
            "nextCursor": answer.next_cursor,
            "reset": views.reset(answer.reset),
        }
    )


async def push(call: Call, project: str, body: RawPush) -> Answer:
    _, voice = await speaker(
        call, body.node_id, O.SYNC_EXCHANGE, project=project, incarnation=body.incarnation
    )
    items = [read_item(data) for data in body.tasks]
    answer = await call.services.exchange.push(
        voice,
        project,
        items,
        local_clock=body.local_clock,
        is_atomic=body.atomic,
    )
    now = call.services.now()
    pushed = answer.pushed
    call.services.figures.pushed(items, pushed.results)
    shown: dict[str, Any] = {
        "success": True,
        "results": [views.result(result, now) for result in pushed.results],
        "serverClock": pushed.clock,
        **views.place(answer.cursor),
    }
    warnings = ["localClock is too far ahead and was clamped"] if pushed.is_clamped else []
    if warnings:
        shown["warnings"] = warnings
    return Answer(shown)
