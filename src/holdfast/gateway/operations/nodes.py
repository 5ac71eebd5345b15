"""Operations on nodes: list, read, change of state.

A node that registered belongs to a project. A process that runs an engine on the store belongs to none: every
principal sees it, and nothing changes its state.
"""

from __future__ import annotations

from functools import partial
from typing import Final

import msgspec

from holdfast.core.node_identity import NodeKind, NodeState
from holdfast.core.rights import Operation
from holdfast.errors import NotFound
from holdfast.gateway.operations.admin import ReasonBody
from holdfast.gateway.operations.call import Answer, Call, missing
from holdfast.queue.nodes import Node
from holdfast.queue.views import View
from holdfast.sync import views
from holdfast.sync.nodes.nodes import NodeView
from holdfast.sync.rows import RegisteredNode

O: Final = Operation  # noqa: E741


async def find(call: Call, *, live: bool = True, agents: bool = True) -> Answer:
    """The nodes of the projects of the caller, and the processes of the store. With `agents` False without
    the agents of the fleet, of which each host has one."""
    call.authorise_any(O.NODES_READ, owner_node=call.principal.node)
    now = call.services.now()
    nodes = call.services.parts.nodes
    rows = await nodes.runners() if live and not agents else await nodes.list(live=live)
    if call.principal.node is not None:
        rows = [row for row in rows if row.id == call.principal.node]
    registered = await call.services.nodes.find([row.id for row in rows])
    items = [
        _shown(call, row, now, registered.get(row.id))
        for row in rows
        if _is_visible(call, registered.get(row.id))
        and (agents or not _is_agent(registered.get(row.id)))
    ]
    return Answer({"items": items, "next": None})


async def get(call: Call, node_id: str) -> Answer:
    call.authorise_any(O.NODES_READ, owner_node=node_id)
    view = (await call.services.nodes.find([node_id])).get(node_id)
    row = await _row(call, node_id)
    if not _is_visible(call, view):
        raise missing("node", node_id)
    return Answer(_shown(call, row, call.services.now(), view))


def _shown(call: Call, row: Node, now: float, registered: NodeView | None) -> View:
    """A node with what this gateway has heard of it. The rows of agents are written in batches, at times that
    are not those of their heartbeats."""
    heard_nodes = call.services.heard_nodes
    view = views.node(row, now, registered)
    if _is_agent(registered):
        view["heartbeat_seconds"] = call.services.agents.agents.heartbeat_seconds
    elif row.is_live:
        heard_nodes.looked(row.id, row.seen_at, row.heartbeat_seconds)
    view["heartbeats"] = heard_nodes.intervals(row.id)
    if (skew := heard_nodes.skew_seconds(row.id)) is not None:
        view["skew_seconds"] = round(skew, 3)
    return view


async def _row(call: Call, node_id: str) -> Node:
    for row in await call.services.parts.nodes.list(live=False):
        if row.id == node_id:
            return row
    raise missing("node", node_id)


async def _unchangeable(call: Call, node_id: str) -> NotFound:
    """Why a node has no state that an operator could change."""
    await _row(call, node_id)
    return NotFound(
        f"node {node_id} has not registered: it is a process with the database, stop it where it runs"
    )


def _is_agent(view: NodeView | None) -> bool:
    return view is not None and view.row.kind == NodeKind.AGENT


def _is_visible(call: Call, view: NodeView | None) -> bool:
    return view is None or call.projects is None or view.row.project in call.projects


async def _change(call: Call, node_id: str, body: ReasonBody, *, state: NodeState) -> Answer:
    call.authorise_any(O.NODES_MANAGE)
    nodes = call.services.nodes
    before = (await nodes.find([node_id])).get(node_id)
    if before is None:
        raise await _unchangeable(call, node_id)
    project = before.row.project
    actor = call.authorise(O.NODES_MANAGE, project=project, noun="node", id=node_id).actor
    seen, now = await _row(call, node_id), call.services.now()

    def answer(row: RegisteredNode) -> Answer:
        return Answer(_shown(call, seen, now, msgspec.structs.replace(before, row=row)))

    by = call.by(
        O.NODES_MANAGE,
        project=project,
        subject=f"node:{node_id}",
        actor=actor,
        reason=body.reason,
        answer=answer,
        detail={"state": state.value},
    )
    row = await nodes.set_state(node_id, state, by)
    call.services.wake()
    return answer(row)


cordon = partial(_change, state=NodeState.CORDONED)
uncordon = partial(_change, state=NodeState.LIVE)
drain = partial(_change, state=NodeState.DRAINING)
quarantine = partial(_change, state=NodeState.QUARANTINED)
revoke = partial(_change, state=NodeState.REVOKED)
