"""Operations of nodes with an identity (`/api/v2/sync`): register, heartbeat, list."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.core.check import check_whole
from holdfast.core.intervention import AckOutcome
from holdfast.core.node_identity import NodeKind
from holdfast.core.rights import Operation, PrincipalKind
from holdfast.core.speaking import Voice
from holdfast.core.wire import WHOLE_MAX, make_cursor, parse_id_cursor, time_text
from holdfast.gateway.operations.call import Answer, Call
from holdfast.gateway.operations.sync import views
from holdfast.gateway.operations.sync.speaker import speaker
from holdfast.sync.nodes.nodes import Registration
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
    reason: str = ""
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
        O.NODES_REGISTER,
        project=project,
        subject=f"node:{body.node_id}",
        actor=allowed.actor,
        reason=body.reason,
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
    call.services.heard_nodes.heard(node_id, call.services.rules.heartbeat_seconds)
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
