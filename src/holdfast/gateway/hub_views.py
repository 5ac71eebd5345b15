"""The JSON forms of nodes with an identity, projects and conflicts (`/api/v1`)."""

from __future__ import annotations

from holdfast.core import codec
from holdfast.gateway import views
from holdfast.gateway.views import View, at
from holdfast.queue.nodes import Node
from holdfast.sync.conflicts import Conflict
from holdfast.sync.nodes import NodeView
from holdfast.sync.projects import ProjectView
from holdfast.sync.rows import ProjectRow


def node(of: Node, now: float, registered: NodeView | None) -> View:
    """A node of either kind. A process of the store has no identity."""
    identity = dict.fromkeys(_IDENTITY) if registered is None else registered_node(registered, now)
    return {**identity, **views.node(of, now)}


_IDENTITY = (
    "project",
    "kind",
    "state",
    "incarnation",
    "capabilities",
    "labels",
    "registered_at",
    "running",
    "lag_events",
)


def registered_node(of: NodeView, now: float) -> View:
    """A node with an identity."""
    row = of.row
    return {
        "id": row.id,
        "project": row.project,
        "kind": row.kind,
        "state": row.state,
        "is_live": of.is_live,
        "incarnation": row.incarnation,
        "capabilities": row.capabilities,
        "labels": codec.loads(row.labels_json),
        "registered_at": at(row.registered_at),
        "started_at": at(row.started_at),
        "seen_at": at(row.seen_at),
        "seen_seconds_ago": round(max(0.0, now - row.seen_at), 3),
        "running": of.running,
        "lag_events": of.lag_events,
    }


def project(of: ProjectRow | ProjectView) -> View:
    settings = codec.loads_object(of.settings_json)
    return {
        "id": of.id,
        "strategy": of.strategy,
        "overrides": settings.get("strategies", {}),
        "clock": of.clock,
        "version": of.version,
    }


def conflict_row(of: Conflict) -> View:
    """A conflict in a list."""
    return {
        "id": of.id,
        "project": of.project,
        "task_id": of.task_id,
        "client_id": of.client_id,
        "kind": of.kind,
        "state": of.state,
        "node": of.node,
        "mutation_id": of.mutation_id,
        "base_version": of.base_version,
        "server_version": of.server_version,
        "resolution": of.resolution,
        "settled_by": of.settled_by,
        "reason": of.reason,
        "created_at": at(of.at),
        "version": of.version,
    }


def conflict(of: Conflict) -> View:
    """A conflict with both sides."""
    sides = {"server": codec.loads(of.server_json), "client": codec.loads(of.client_json)}
    return {**conflict_row(of), **sides}
