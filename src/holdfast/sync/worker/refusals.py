"""A refused change of a worker as its acknowledgement shows it."""

from __future__ import annotations

from typing import Final

from holdfast.core import codec, gate
from holdfast.core.task import Task
from holdfast.core.transition import Refusal
from holdfast.core.worker.wire import (
    Change,
    ChangeRefused,
    CheckpointChange,
    MetricsChange,
    OutputChunk,
    TaskChange,
)

_WHAT: Final[dict[type, str]] = {
    TaskChange: "task",
    OutputChunk: "output",
    CheckpointChange: "checkpoint",
    MetricsChange: "metrics",
}


def shown(change: Change, refusal: Refusal, fence: int, task: Task | None) -> ChangeRefused:
    """The refusal with the state of the task; None for a task that the worker may not see."""
    return ChangeRefused(
        task_id=refusal.task_id,
        code=refusal.code,
        detail=refusal.message,
        what=_WHAT[type(change)],
        fence=fence,
        state_json="" if task is None else codec.dumps(_state_of(task)),
    )


def _state_of(task: Task) -> dict[str, object]:
    """The state that a refusal carries. Payload and result are left out."""
    return {
        "id": task.id,
        "status": task.status.value,
        "version": task.version,
        "fence": task.fence,
        "attempt": task.attempts,
        "node": task.node,
        "desired": gate.desired(task),
    }
