"""Completions that one statement can write: of running tasks without limits and dependents."""

from __future__ import annotations

from holdfast.core.command import Instruction
from holdfast.core.decide import decide
from holdfast.core.task import RUNNING, Task
from holdfast.core.transition import Transition
from holdfast.core.worker_changes import Reporter, command_of
from holdfast.core.worker_wire import TaskChange
from holdfast.errors import InvalidInput


def completion(change: TaskChange, task: Task, node: str, now: float) -> Transition | None:
    """The transition of such a completion. None: the change takes the general path."""
    is_plain = (
        change.status == "completed"
        and change.fence == task.fence
        and task.status is RUNNING
        and task.node == node
        and not task.limits
        and not task.has_dependents
    )
    if not is_plain:
        return None
    try:
        command = command_of(change, task, Reporter(f"node:{node}", now))
    except InvalidInput:
        return None
    ruling = decide(task, Instruction(task.id, command, fence=change.fence), now)
    return ruling if isinstance(ruling, Transition) else None
