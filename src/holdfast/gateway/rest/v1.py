"""The table of `/api/v1`."""

from __future__ import annotations

from typing import Final

import msgspec

from holdfast.client import admin_models, models
from holdfast.core.rights import Operation as O  # noqa: N817
from holdfast.gateway.operations import (
    admin,
    bulk,
    conflicts,
    dead,
    dead_change,
    decisions,
    facets,
    interventions,
    new_tasks,
    output,
    tasks,
)
from holdfast.gateway.rest import fleet, v1_admin, v1_groups
from holdfast.gateway.rest.route import PagedSearch, Route, Searched, Waited

PREFIX: Final = "/api/v1"


class Search(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters of a list of tasks."""

    q: str = ""
    after: str | None = None
    limit: int = 100


class TaskSearch(Search, frozen=True, forbid_unknown_fields=True):
    """Parameters of the list of all tasks."""

    behind: str | None = None
    bodies: bool = False


class FacetsQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    q: str = ""


class DeadQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    type: str | None = None
    queue: str | None = None
    fingerprint: str | None = None
    behind: str | None = None
    limit: int = 50


class Limited(Searched, frozen=True, forbid_unknown_fields=True):
    limit: int = 50


class OutputQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    stream: str = "stdout"
    fence: int | None = None
    start: int = 0
    limit_bytes: int = 262_144


_Reason = admin.ReasonBody
ROUTES: Final = (
    Route(
        "POST",
        "/tasks",
        new_tasks.submit,
        "Enqueue a task",
        body=new_tasks.TaskBody,
        operation=O.TASKS_SUBMIT,
        status=201,
    ),
    Route(
        "POST",
        "/tasks/batch",
        new_tasks.submit_batch,
        "Enqueue tasks, all or none",
        body=new_tasks.BatchBody,
        operation=O.TASKS_SUBMIT,
        status=201,
    ),
    Route(
        "GET",
        "/tasks",
        tasks.find,
        "List tasks",
        TaskSearch,
        operation=O.TASKS_READ,
        is_list=True,
    ),
    Route(
        "GET",
        "/tasks/facets",
        facets.facets,
        "The tasks that match, counted by status, type, queue and time",
        FacetsQuery,
        operation=O.TASKS_READ,
    ),
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
        "Change the payload or the metadata by a merge patch, or the tags",
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
        Searched,
        operation=O.TASKS_READ,
        items=models.EventView,
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
        Searched,
        operation=O.TASKS_READ,
        items=models.CheckpointView,
    ),
    Route(
        "POST",
        "/tasks/{task_id}/copy",
        new_tasks.copy,
        "Enqueue a task like this one",
        body=new_tasks.CopyBody,
        operation=O.TASKS_COPY,
        status=201,
    ),
    Route(
        "GET",
        "/tasks/{task_id}/interventions",
        interventions.find,
        "What operators did to a task",
        PagedSearch,
        operation=O.TASKS_READ,
        is_list=True,
        items=models.Intervention,
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
        Search,
        operation=O.DECISIONS_READ,
        is_list=True,
        items=models.DecisionRow,
        own_keys=("state", "assignee"),
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
    Route(
        "GET",
        "/conflicts",
        conflicts.find,
        "List conflicts",
        Search,
        operation=O.CONFLICTS_READ,
        is_list=True,
        items=admin_models.ConflictRow,
        own_keys=("state", "project"),
    ),
    Route(
        "GET",
        "/conflicts/{conflict_id}",
        conflicts.get,
        "One conflict with both sides",
        operation=O.CONFLICTS_READ,
    ),
    Route(
        "POST",
        "/conflicts/{conflict_id}/settle",
        conflicts.settle,
        "Settle a conflict",
        body=conflicts.SettleBody,
        operation=O.CONFLICTS_SETTLE,
    ),
    Route(
        "GET",
        "/queues",
        admin.list_queues,
        "List queues",
        Searched,
        operation=O.QUEUES_READ,
        items=admin_models.QueueView,
    ),
    Route("GET", "/queues/{name}", admin.get_queue, "One queue", operation=O.QUEUES_READ),
    Route(
        "POST",
        "/queues/{name}/pause",
        admin.pause_queue,
        "Stop starting tasks of a queue",
        body=admin.ChangeBody,
        operation=O.QUEUES_PAUSE,
    ),
    Route(
        "POST",
        "/queues/{name}/resume",
        admin.resume_queue,
        "Resume a paused queue",
        body=admin.ChangeBody,
        operation=O.QUEUES_PAUSE,
    ),
    Route(
        "GET",
        "/dead-letters",
        dead.find,
        "List dead letters",
        Search,
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
        items=admin_models.DeadGroup,
    ),
    Route(
        "GET",
        "/dead-letters/trend",
        dead.trend,
        "Dead letters by cause and hour, over 24 hours",
        operation=O.TASKS_READ,
    ),
    Route(
        "GET",
        "/dead-letters/latest",
        dead_change.latest,
        "Dead letters with their bodies, the latest death first",
        DeadQuery,
        operation=O.TASKS_READ,
    ),
    *(
        Route("POST", path, handler, summary, body=body, operation=operation)
        for path, handler, summary, body, operation in (
            (
                "/dead-letters/replay",
                dead_change.replay_all,
                "Give the dead letters that match new attempts",
                dead_change.ReplayAllBody,
                O.DEAD_REPLAY,
            ),
            (
                "/dead-letters/discard",
                dead_change.discard_all,
                "End the dead letters that match for good",
                dead_change.FilterBody,
                O.DEAD_DISCARD,
            ),
            (
                "/dead-letters/{task_id}/replay",
                dead_change.replay,
                "Give a dead letter new attempts",
                dead_change.ReplayBody,
                O.DEAD_REPLAY,
            ),
            (
                "/dead-letters/{task_id}/discard",
                dead_change.discard,
                "End a dead letter for good",
                dead_change.DiscardBody,
                O.DEAD_DISCARD,
            ),
        )
    ),
    Route(
        "POST",
        "/operations",
        bulk.run,
        "Change many tasks at once",
        body=bulk.OperationBody,
        operation=O.OPERATIONS_RUN,
        status=202,
    ),
    Route(
        "GET",
        "/operations",
        bulk.find,
        "The changes of many tasks, the latest first",
        PagedSearch,
        operation=O.TASKS_READ,
        items=admin_models.OperationView,
    ),
    Route(
        "GET",
        "/operations/{operation_id}",
        bulk.get,
        "One change of many tasks",
        operation=O.TASKS_READ,
    ),
    *(
        Route(
            "POST",
            f"/operations/{{operation_id}}/{verb}",
            handler,
            summary,
            body=bulk.StopBody,
            operation=O.OPERATIONS_RUN,
        )
        for verb, handler, summary in (
            ("stop", bulk.stop, "Change no further task"),
            ("resume", bulk.resume, "Go on with the tasks that are left"),
        )
    ),
    Route(
        "POST",
        "/operations/{operation_id}/undo",
        bulk.undo,
        "Take a pause of many tasks back",
        body=bulk.UndoBody,
        operation=O.OPERATIONS_RUN,
        status=202,
    ),
    *v1_groups.ROUTES,
    *v1_admin.ROUTES,
    *fleet.ROUTES,
)
