"""The table of `/api/v1`."""

from __future__ import annotations

from typing import Final

import msgspec

from holdfast.core.rights import Operation as O  # noqa: N817
from holdfast.gateway.operations import (
    admin,
    dead,
    decisions,
    interventions,
    output,
    system,
    tasks,
)
from holdfast.gateway.rest.route import Route

PREFIX: Final = "/api/v1"


class Paged(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters of a list."""

    after: str | None = None
    limit: int = 100


class Found(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters of a list of tasks."""

    q: str = ""
    after: str | None = None
    limit: int = 100


class Waited(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    wait_seconds: float = 0.0


class Limited(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    limit: int = 50


class EventsQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    after: str | None = None
    topics: str = ""
    kinds: str = ""
    limit: int = 100
    wait_seconds: float = 0.0


class OutputQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    stream: str = "stdout"
    fence: int | None = None
    start: int = 0
    limit_bytes: int = 262_144


class Live(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    live: bool = True


_Reason = admin.ReasonBody
ROUTES: Final = (
    Route(
        "POST",
        "/tasks",
        tasks.submit,
        "Enqueue a task",
        body=tasks.TaskBody,
        operation=O.TASKS_SUBMIT,
        status=201,
    ),
    Route(
        "POST",
        "/tasks/batch",
        tasks.submit_batch,
        "Enqueue tasks, all or none",
        body=tasks.BatchBody,
        operation=O.TASKS_SUBMIT,
        status=201,
    ),
    Route("GET", "/tasks", tasks.find, "List tasks", Found, operation=O.TASKS_READ, is_list=True),
    Route(
        "GET",
        "/tasks/{task_id}",
        tasks.get,
        "One task with its bodies",
        Waited,
        operation=O.TASKS_READ,
    ),
    Route(
        "PATCH",
        "/tasks/{task_id}",
        tasks.edit,
        "Change the payload by a merge patch",
        body=tasks.EditBody,
        operation=O.TASKS_EDIT,
    ),
    Route(
        "GET",
        "/tasks/{task_id}/why",
        tasks.why,
        "Why a task is not running",
        operation=O.TASKS_READ,
    ),
    Route(
        "GET",
        "/tasks/{task_id}/history",
        tasks.history,
        "The events of a task",
        operation=O.TASKS_READ,
    ),
    Route(
        "GET",
        "/tasks/{task_id}/output",
        output.read,
        "A part of the output of a task",
        OutputQuery,
        operation=O.OUTPUT_READ,
    ),
    Route(
        "GET",
        "/tasks/{task_id}/checkpoints",
        output.checkpoints,
        "The last checkpoints of a task",
        operation=O.TASKS_READ,
    ),
    Route(
        "POST",
        "/tasks/{task_id}/copy",
        tasks.copy,
        "Enqueue a task like this one",
        body=tasks.CopyBody,
        operation=O.TASKS_COPY,
        status=201,
    ),
    Route(
        "GET",
        "/tasks/{task_id}/interventions",
        interventions.find,
        "What operators did to a task",
        Paged,
        operation=O.TASKS_READ,
        is_list=True,
    ),
    Route(
        "POST",
        "/tasks/{task_id}/interventions",
        interventions.intervene,
        "Abort, pause, resume, retry, reassign, release or force a task",
        body=interventions.InterventionBody,
        operation=O.TASKS_INTERVENE,
    ),
    Route(
        "GET",
        "/interventions/{intervention_id}",
        interventions.get,
        "One intervention, and how far its runner has followed",
        operation=O.TASKS_READ,
    ),
    Route(
        "GET",
        "/decisions",
        decisions.find,
        "List decisions",
        Found,
        operation=O.DECISIONS_READ,
        is_list=True,
    ),
    Route(
        "GET",
        "/decisions/{decision_id}",
        decisions.get,
        "One decision with its checkpoint",
        operation=O.DECISIONS_READ,
    ),
    Route(
        "POST",
        "/decisions/{decision_id}",
        decisions.answer,
        "Answer a decision",
        body=decisions.ChoiceBody,
        operation=O.DECISIONS_DECIDE,
    ),
    Route("GET", "/queues", admin.list_queues, "List queues", operation=O.QUEUES_READ),
    Route("GET", "/queues/{name}", admin.get_queue, "One queue", operation=O.QUEUES_READ),
    Route(
        "POST",
        "/queues/{name}/pause",
        admin.pause_queue,
        "Stop starting tasks of a queue",
        body=_Reason,
        operation=O.QUEUES_PAUSE,
    ),
    Route(
        "POST",
        "/queues/{name}/resume",
        admin.resume_queue,
        "Resume a paused queue",
        body=_Reason,
        operation=O.QUEUES_PAUSE,
    ),
    Route(
        "GET",
        "/dead-letters",
        dead.find,
        "List dead letters",
        Found,
        operation=O.TASKS_READ,
        is_list=True,
    ),
    Route(
        "GET",
        "/dead-letters/groups",
        dead.groups,
        "Dead letters by cause",
        Limited,
        operation=O.TASKS_READ,
    ),
    Route(
        "POST",
        "/operations",
        dead.run,
        "Change many tasks at once",
        body=dead.OperationBody,
        operation=O.OPERATIONS_RUN,
    ),
    Route(
        "GET",
        "/events",
        system.read_events,
        "Events after a position",
        EventsQuery,
        operation=O.EVENTS_READ,
    ),
    Route(
        "POST",
        "/ws-tickets",
        system.create_ticket,
        "A ticket for one WebSocket",
        operation=O.EVENTS_READ,
        status=201,
    ),
    Route("GET", "/nodes", admin.list_nodes, "List nodes", Live, operation=O.NODES_READ),
    Route("GET", "/nodes/{node_id}", admin.get_node, "One node", operation=O.NODES_READ),
    Route(
        "POST",
        "/join-tokens",
        system.create_join_token,
        "A token with which nodes register",
        body=system.JoinBody,
        operation=O.TOKENS_MANAGE,
        status=201,
    ),
    Route(
        "GET",
        "/locks",
        admin.list_locks,
        "List held locks",
        Paged,
        operation=O.LOCKS_READ,
        is_list=True,
    ),
    Route(
        "GET",
        "/locks/{resource}",
        admin.get_lock,
        "One lock with its waiters",
        operation=O.LOCKS_READ,
    ),
    Route(
        "POST",
        "/locks/{resource}/revoke",
        admin.revoke_lock,
        "Take a lock from its holder",
        body=_Reason,
        operation=O.LOCKS_REVOKE,
    ),
    Route("GET", "/schedules", admin.list_schedules, "List schedules", operation=O.SCHEDULES_READ),
    Route(
        "GET", "/schedules/{name}", admin.get_schedule, "One schedule", operation=O.SCHEDULES_READ
    ),
    Route(
        "PUT",
        "/schedules/{name}",
        admin.put_schedule,
        "Add or change a schedule",
        body=admin.ScheduleBody,
        operation=O.SCHEDULES_WRITE,
    ),
    Route(
        "DELETE",
        "/schedules/{name}",
        admin.remove_schedule,
        "Remove a schedule",
        operation=O.SCHEDULES_WRITE,
    ),
    Route(
        "POST",
        "/schedules/{name}/pause",
        admin.pause_schedule,
        "Pause a schedule",
        body=_Reason,
        operation=O.SCHEDULES_WRITE,
    ),
    Route(
        "POST",
        "/schedules/{name}/resume",
        admin.resume_schedule,
        "Resume a schedule",
        body=_Reason,
        operation=O.SCHEDULES_WRITE,
    ),
    Route(
        "GET",
        "/tokens",
        system.list_tokens,
        "List tokens",
        Paged,
        operation=O.TOKENS_MANAGE,
        is_list=True,
    ),
    Route(
        "POST",
        "/tokens",
        system.create_token,
        "Create a token",
        body=system.TokenBody,
        operation=O.TOKENS_MANAGE,
        status=201,
    ),
    Route(
        "DELETE",
        "/tokens/{token_id}",
        system.revoke_token,
        "Revoke a token",
        operation=O.TOKENS_MANAGE,
    ),
    Route(
        "POST",
        "/tokens/{token_id}/rotate",
        system.rotate_token,
        "Give a token another secret",
        operation=O.TOKENS_MANAGE,
    ),
    Route("GET", "/whoami", system.whoami, "The principal of the request"),
    Route("GET", "/projects", system.list_projects, "List projects", operation=O.TASKS_READ),
    Route("GET", "/types", system.list_types, "List task types", operation=O.QUEUES_READ),
    Route(
        "PUT",
        "/types",
        system.put_types,
        "Register task types",
        body=system.TypesBody,
        operation=O.TASKS_SUBMIT,
    ),
    Route(
        "GET", "/stats", system.stats, "Numbers of tasks, workers and nodes", operation=O.STATS_READ
    ),
    Route(
        "GET",
        "/audit",
        system.list_audit,
        "List acts of operators",
        Paged,
        operation=O.AUDIT_READ,
        is_list=True,
    ),
    Route(
        "GET",
        "/audit/verify",
        system.verify_audit,
        "Verify the chain of the audit",
        operation=O.AUDIT_READ,
    ),
)
