"""The table of `/api/v2/sync`: the endpoints of the Forge sync protocol."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from holdfast.core.rights import Operation as O  # noqa: N817
from holdfast.gateway.operations import sync, sync_reports, sync_status, sync_tasks
from holdfast.gateway.rest.route import Route

PREFIX: Final = "/api/v2/sync"


class NodesQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    state: str | None = None
    limit: int = 100
    after: str | None = None


class LogQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    after: str | None = None
    limit: int = 100
    task_id: str | None = None
    node_id: str | None = None
    outcome: str | None = None


class PageQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    after: str | None = None
    limit: int = 100


def _post(path: str, handler: Any, summary: str, body: Any, operation: O) -> Route:
    return Route("POST", path, handler, summary, body=body, operation=operation)


ROUTES: Final = (
    _post(
        "/nodes/register", sync.register, "Register a node", sync.RegisterBody, O.NODES_REGISTER
    )._replace(is_entry=True),
    _post(
        "/nodes/{node_id}/heartbeat",
        sync.node_heartbeat,
        "Heartbeat of a node",
        sync.NodeBeatBody,
        O.SYNC_RUN,
    ),
    Route(
        "GET",
        "/nodes/{project}",
        sync.list_nodes,
        "List the nodes of a project",
        NodesQuery,
        operation=O.NODES_READ,
    ),
    _post(
        "/handshake/{project}",
        sync.handshake,
        "Compare versions",
        sync.HandshakeBody,
        O.SYNC_EXCHANGE,
    ),
    _post("/push/{project}", sync.push, "Push changes", sync.PushBody, O.SYNC_EXCHANGE)._replace(
        decoded=sync.RawPush
    ),
    _post("/pull/{project}", sync.pull, "Pull tasks", sync.PullBody, O.SYNC_EXCHANGE),
    _post(
        "/tasks/{task_id}/claim", sync_tasks.claim, "Lock a task", sync_tasks.ClaimBody, O.SYNC_RUN
    ),
    _post(
        "/tasks/{task_id}/heartbeat",
        sync_tasks.heartbeat,
        "Extend a lock",
        sync_tasks.BeatBody,
        O.SYNC_RUN,
    ),
    _post(
        "/tasks/{task_id}/release",
        sync_tasks.release,
        "Release a lock",
        sync_tasks.ReleaseBody,
        O.SYNC_RUN,
    ),
    _post(
        "/tasks/{task_id}/output",
        sync_reports.output,
        "Append output of a run",
        sync_reports.OutputBody,
        O.SYNC_RUN,
    ),
    _post(
        "/tasks/{task_id}/checkpoints",
        sync_reports.checkpoint,
        "Add a named checkpoint",
        sync_reports.CheckpointBody,
        O.SYNC_RUN,
    ),
    _post(
        "/intervene",
        sync_tasks.intervene,
        "Intervene in a task",
        sync_tasks.InterveneBody,
        O.TASKS_INTERVENE,
    ),
    Route(
        "GET",
        "/interventions/{task_id}",
        sync_tasks.interventions,
        "Interventions on a task",
        PageQuery,
        operation=O.TASKS_READ,
    ),
    Route(
        "GET",
        "/status/{project}",
        sync_status.status,
        "The figures of a project",
        operation=O.SYNC_STATUS,
    ),
    Route(
        "GET",
        "/log/{project}",
        sync_status.log,
        "The log of a project",
        LogQuery,
        operation=O.SYNC_LOG,
    ),
    _post(
        "/fix-expired-locks",
        sync_status.fix_expired_locks,
        "End runs whose lease has ended",
        sync_status.FixBody,
        O.SYNC_REPAIR,
    ),
)
