"""The table of `/api/v2/sync`: the endpoints of the Forge sync protocol."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from holdfast.core.rights import Operation as O  # noqa: N817
from holdfast.gateway.operations.sync import exchange, locks, nodes, reports, status
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
    latest: bool = False


class PageQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    after: str | None = None
    limit: int = 100


def _post(path: str, handler: Any, summary: str, body: Any, operation: O) -> Route:
    return Route("POST", path, handler, summary, body=body, operation=operation)


ROUTES: Final = (
    _post(
        "/nodes/register",
        nodes.register,
        "Register a node",
        nodes.RegisterBody,
        O.NODES_REGISTER,
    )._replace(is_entry=True),
    _post(
        "/nodes/{node_id}/heartbeat",
        nodes.node_heartbeat,
        "Heartbeat of a node",
        nodes.NodeBeatBody,
        O.SYNC_RUN,
    ),
    Route(
        "GET",
        "/nodes/{project}",
        nodes.list_nodes,
        "List the nodes of a project",
        NodesQuery,
        operation=O.NODES_READ,
    ),
    _post(
        "/handshake/{project}",
        exchange.handshake,
        "Compare versions",
        exchange.HandshakeBody,
        O.SYNC_EXCHANGE,
    ),
    _post(
        "/push/{project}", exchange.push, "Push changes", exchange.PushBody, O.SYNC_EXCHANGE
    )._replace(decoded=exchange.RawPush),
    _post("/pull/{project}", exchange.pull, "Pull tasks", exchange.PullBody, O.SYNC_EXCHANGE),
    _post("/tasks/{task_id}/claim", locks.claim, "Lock a task", locks.ClaimBody, O.SYNC_RUN),
    _post(
        "/tasks/{task_id}/heartbeat",
        locks.heartbeat,
        "Extend a lock",
        locks.BeatBody,
        O.SYNC_RUN,
    ),
    _post(
        "/tasks/{task_id}/release",
        locks.release,
        "Release a lock",
        locks.ReleaseBody,
        O.SYNC_RUN,
    ),
    _post(
        "/tasks/{task_id}/output",
        reports.output,
        "Append output of a run",
        reports.OutputBody,
        O.SYNC_RUN,
    ),
    _post(
        "/tasks/{task_id}/checkpoints",
        reports.checkpoint,
        "Add a named checkpoint",
        reports.CheckpointBody,
        O.SYNC_RUN,
    ),
    _post(
        "/intervene",
        locks.intervene,
        "Intervene in a task",
        locks.InterveneBody,
        O.TASKS_INTERVENE,
    ),
    Route(
        "GET",
        "/interventions/{task_id}",
        locks.interventions,
        "Interventions on a task",
        PageQuery,
        operation=O.TASKS_READ,
    ),
    Route(
        "GET",
        "/status/{project}",
        status.status,
        "The figures of a project",
        operation=O.SYNC_STATUS,
    ),
    Route(
        "GET",
        "/log/{project}",
        status.log,
        "The log of a project",
        LogQuery,
        operation=O.SYNC_LOG,
    ),
    _post(
        "/fix-expired-locks",
        status.fix_expired_locks,
        "End runs whose lease has ended",
        status.FixBody,
        O.SYNC_REPAIR,
    ),
)
