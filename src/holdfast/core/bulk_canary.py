"""The canary of a replay: the rest waits until the first tasks have ended, and stops if one fails again.

A replay that queues a task has not shown that it works: the cause may still be there. A task of the canary
that has a retry left has not ended yet. Never: I/O, clocks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from holdfast.core.bulk import BulkRun, BulkState
from holdfast.core.plural import noun_for
from holdfast.core.task import ENDED, Task

LOOK_SECONDS: Final = 1.0
"""How often the tasks of a canary are read while the rest waits."""


def looked(run: BulkRun, tasks: Mapping[str, Task], now: float) -> BulkRun:
    """The run after a look at the tasks of its canary. One that is gone has ended."""
    watched = run.progress.watched
    dead = sum(task_id in tasks and tasks[task_id].is_dead for task_id in watched)
    left = tuple(id for id in watched if id in tasks and tasks[id].status not in ENDED)
    size = run.judged
    after = replace(run, updated_at=now, version=run.version + 1)
    if dead:
        detail = f"{dead} of {_tasks(size)} of the canary failed again"
        return replace(after, state=BulkState.STOPPED, detail=detail)
    progress = replace(run.progress, watched=left)
    if left:
        detail = f"waits for the canary: {len(left)} of {_tasks(size)} have not ended"
        return replace(after, detail=detail, next_at=now + LOOK_SECONDS, progress=progress)
    return replace(after, detail="", next_at=now, progress=progress)


def _tasks(count: int) -> str:
    return f"{count} {noun_for(count, 'task')}"
