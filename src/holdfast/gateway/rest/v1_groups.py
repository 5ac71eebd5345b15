"""The part of `/api/v1` about task groups."""

from __future__ import annotations

from typing import Final

from holdfast.core.rights import Operation as O  # noqa: N817
from holdfast.gateway.operations import task_groups
from holdfast.gateway.rest.route import Paged, Route, Waited

ROUTES: Final = (
    Route(
        "POST",
        "/task-groups",
        task_groups.submit,
        "Enqueue tasks as a group, all or none",
        body=task_groups.GroupBody,
        operation=O.TASKS_SUBMIT,
        status=201,
    ),
    Route(
        "GET",
        "/task-groups/{group_id}",
        task_groups.get,
        "How far a task group is",
        Waited,
        operation=O.TASKS_READ,
    ),
    Route(
        "GET",
        "/task-groups/{group_id}/tasks",
        task_groups.tasks,
        "The tasks of a group with their bodies, in order",
        Paged,
        operation=O.TASKS_READ,
        is_list=True,
    ),
    Route(
        "POST",
        "/task-groups/{group_id}/cancel",
        task_groups.cancel,
        "Abort the tasks of a group that have not ended",
        body=task_groups.CancelBody,
        operation=O.TASKS_INTERVENE,
    ),
)
