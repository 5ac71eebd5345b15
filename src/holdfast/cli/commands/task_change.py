"""`holdfast task cancel|pause|resume`: changing tasks. Each change is recorded with actor and reason."""

from __future__ import annotations

from holdfast.cli.commands.changes import change_each
from holdfast.cli.options import COMMON, Common, Reason, TaskIds
from holdfast.cli.session import by
from holdfast.core.task import Task
from holdfast.queue.parts import Parts


def cancel(*ids: TaskIds, reason: Reason = "", common: Common = COMMON) -> int:
    """Abort tasks in any state; a running handler is cancelled."""

    async def change(parts: Parts, task: Task) -> Task:
        return await parts.tasks.cancel(task.id, by(reason))

    return change_each(common, ids, change, "aborted")


def pause(*ids: TaskIds, reason: Reason = "", common: Common = COMMON) -> int:
    """Stop running tasks until they are resumed; this does not use up an attempt."""

    async def change(parts: Parts, task: Task) -> Task:
        return await parts.tasks.pause(task.id, by(reason))

    return change_each(common, ids, change, "paused")


def resume(*ids: TaskIds, common: Common = COMMON) -> int:
    """Put paused tasks back into the queue."""

    async def change(parts: Parts, task: Task) -> Task:
        return await parts.tasks.resume(task.id, by())

    return change_each(common, ids, change, "queued again")
