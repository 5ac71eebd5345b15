"""The JSON form of what only the hub has: nodes with an identity, projects, conflicts, tokens, the audit,
checkpoints. Everything else is in `queue.views`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from holdfast.client import admin_models as models
from holdfast.client.models import CheckpointView
from holdfast.core import codec
from holdfast.core.audit import AuditRow
from holdfast.core.event import Event
from holdfast.core.exchange.origin import origin
from holdfast.core.wire import time_text
from holdfast.queue import views
from holdfast.queue.nodes import Node
from holdfast.queue.views import View, at, shown
from holdfast.store.audit import AuditCheck
from holdfast.sync.access.token import Token
from holdfast.sync.exchange.conflicts import Conflict
from holdfast.sync.live_reads import OpenConflict
from holdfast.sync.nodes.nodes import NodeView
from holdfast.sync.presets import Preset
from holdfast.sync.projects import ProjectView
from holdfast.sync.rows import ProjectRow
from holdfast.sync.worker.reads import Checkpoint


def node(of: Node, now: float, registered: NodeView | None) -> View:
    """A node of either kind. A process of the store has no identity."""
    return views.node(of, now, None if registered is None else _identity(registered))


def _identity(of: NodeView) -> dict[str, Any]:
    row = of.row
    return {
        "project": row.project,
        "kind": row.kind,
        "state": row.state,
        "incarnation": row.incarnation,
        "capabilities": list(row.capabilities),
        "labels": codec.loads_object(row.labels_json),
        "registered_at": at(row.registered_at),
        "running": of.running,
        "lag_events": of.lag_events,
        "skew_seconds": None if row.skew_ms is None else row.skew_ms / 1000,
    }


def project(of: ProjectRow | ProjectView) -> View:
    settings = codec.loads_object(of.settings_json)
    return shown(
        models.ProjectView(
            id=of.id,
            strategy=of.strategy,
            overrides=settings.get("strategies", {}),
            clock=of.clock,
            version=of.version,
        )
    )


def preset(of: Preset) -> View:
    return shown(
        models.PresetView(
            project=of.project,
            kind=of.kind,
            name=of.name,
            body=codec.loads_object(of.body_json),
            changed_by=of.changed_by,
            changed_at=time_text(of.changed_at),
            version=of.version,
        )
    )


def conflict_row(of: Conflict | OpenConflict) -> View:
    """A conflict in a list."""
    return shown(models.ConflictRow(**_conflict(of)))


def conflict(of: Conflict, events: Sequence[Event] = ()) -> View:
    """A conflict with both sides. `events`: those of its task, which have the base and the writer."""
    server, client = codec.loads(of.server_json), codec.loads(of.client_json)
    found = origin(
        server, client, base_version=of.base_version, version=of.server_version, events=events
    )
    return shown(
        models.ConflictView(
            **_conflict(of),
            server=server,
            client=client,
            base=found.base,
            server_written_at=at(found.written_at),
            server_written_by=found.written_by,
        )
    )


def _conflict(of: Conflict | OpenConflict) -> dict[str, Any]:
    names = [name for name in models.ConflictRow.__struct_fields__ if name != "created_at"]
    return {**{name: getattr(of, name) for name in names}, "created_at": at(of.at)}


def token(of: Token, now: float) -> View:
    return shown(models.TokenRow(**_token(of, now)))


def new_token(of: Token, now: float, secret: str | None) -> View:
    """A token with its secret."""
    return shown(models.TokenView(**_token(of, now), token=secret))


def _token(of: Token, now: float) -> dict[str, Any]:
    return {
        "id": of.id,
        "kind": of.kind.value,
        "name": of.name,
        "principal": of.principal,
        "roles": list(of.roles),
        "projects": list(of.projects),
        "scopes": None if of.scopes is None else list(of.scopes),
        "node_id": of.node_id,
        "uses_left": of.uses_left,
        "state": of.state(now).value,
        "created_by": of.created_by,
        "created_at": at(of.created_at),
        "expires_at": at(of.expires_at),
        "revoked_at": at(of.revoked_at),
        "last_used_at": at(of.used_at),
    }


def audit(of: AuditRow) -> View:
    fields = msgspec.structs.asdict(of)
    detail = codec.loads(fields.pop("detail_json"))
    return shown(models.AuditView(**{**fields, "at": at(of.at), "detail": detail}))


def audit_check(of: AuditCheck) -> View:
    """Whether the chain of the audit is whole."""
    is_ok = of.wrong is None
    return {"ok": is_ok, "rows": of.rows, "head": of.head.hash, "first_wrong": of.wrong}


def checkpoint(of: Checkpoint) -> View:
    """A checkpoint of a task."""
    fields = msgspec.structs.asdict(of)
    data = codec.loads(fields.pop("data_json"))
    return shown(CheckpointView(**{**fields, "data": data, "created_at": at(of.created_at)}))
