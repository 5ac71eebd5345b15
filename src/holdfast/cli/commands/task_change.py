"""`holdfast task cancel|pause|resume`: intervening. Each change is recorded with who and why."""

from __future__ import annotations

from holdfast.cli.commands.changes import change_each
from holdfast.cli.options import COMMON, Common, Reason, TaskIds
from holdfast.cli.session import by
from holdfast.core.task import Task
from holdfast.queue.parts import Parts


def cancel(*ids: TaskIds, reason: Reason = "", common: Common = COMMON) -> int:
    """Abort tasks, whatever they are doing; a running handler is cancelled."""

    async def change(parts: Parts, task: Task) -> Task:
        return await parts.tasks.cancel(task.id, by(reason))

    return change_each(common, ids, change, "aborted")


def pause(*ids: TaskIds, reason: Reason = "", common: Common = COMMON) -> int:
    """Stop running tasks until they are resumed; no attempt is spent."""

    async def change(parts: Parts, task: Task) -> Task:
        return await parts.tasks.pause(task.id, by(reason))

    return change_each(common, ids, change, "paused")


def resume(*ids: TaskIds, common: Common = COMMON) -> int:
    """Let paused tasks go on, from the queue."""

    async def change(parts: Parts, task: Task) -> Task:
        return await parts.tasks.resume(task.id, by())

    return change_each(common, ids, change, "queued again")
