"""`holdfast task cancel|pause|resume`: intervening. Each change is recorded with who and why."""

from __future__ import annotations

from holdfast.app import TaskQueue
from holdfast.cli.commands.changes import change_each
from holdfast.cli.options import COMMON, Common, Reason, TaskIds
from holdfast.cli.session import actor
from holdfast.core.task import Task


def cancel(*ids: TaskIds, reason: Reason = "", common: Common = COMMON) -> int:
    """Abort tasks, whatever they are doing; a running handler is cancelled."""

    async def change(queue: TaskQueue, task: Task) -> Task:
        return await aborted(queue, task, reason)

    return change_each(common, ids, change, "aborted")


def pause(*ids: TaskIds, reason: Reason = "", common: Common = COMMON) -> int:
    """Stop running tasks until they are resumed; no attempt is spent."""

    async def change(queue: TaskQueue, task: Task) -> Task:
        return await queue.pause_task(task.id, actor=actor(), reason=reason)

    return change_each(common, ids, change, "paused")


def resume(*ids: TaskIds, common: Common = COMMON) -> int:
    """Let paused tasks go on, from the queue."""

    async def change(queue: TaskQueue, task: Task) -> Task:
        return await queue.resume_task(task.id, actor=actor())

    return change_each(common, ids, change, "queued again")


async def aborted(queue: TaskQueue, task: Task, reason: str) -> Task:
    """The task once it is aborted; IllegalTransition when it had ended."""
    return await queue.cancel(task.id, actor=actor(), reason=reason)
