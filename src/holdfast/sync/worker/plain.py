"""Completions that one statement can write: of running tasks without limits and dependents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from holdfast.core.command import Instruction
from holdfast.core.decide import decide
from holdfast.core.task import DEFAULT_PROJECT, RUNNING, Task
from holdfast.core.transition import Transition
from holdfast.core.worker.changes import Reporter, command_of
from holdfast.core.worker.wire import Changes, TaskChange
from holdfast.errors import InvalidInput

KNOWN_MAX: Final = 10_000
"""Tasks that a gateway remembers from their claim to their completion."""
KNOWN_CHARS_MAX: Final = 4_096
"""A task with a longer payload is not remembered."""


class Inbound(msgspec.Struct, frozen=True):
    """A message as it arrived, with what the connection knows about its sender."""

    node: str
    incarnation: int
    sequence: int
    changes: Changes
    project: str = DEFAULT_PROJECT


class KnownTasks:
    """The tasks that this process has claimed for workers, as they were then.

    A hint: a completion of a task that changed since, or is not here, reads the row. Promises: bounded; the
    oldest are dropped."""

    def __init__(self) -> None:
        self.tasks: dict[str, Task] = {}

    def add(self, tasks: Iterable[Task]) -> None:
        for task in tasks:
            if len(task.payload_json) + len(task.checkpoint_json or "") <= KNOWN_CHARS_MAX:
                self.tasks[task.id] = task
        while len(self.tasks) > KNOWN_MAX:
            del self.tasks[next(iter(self.tasks))]

    def forget(self, messages: Iterable[Inbound]) -> None:
        """Forgets the tasks whose runs have ended."""
        for message in messages:
            for change in message.changes.task:
                if change.status is not None:
                    self.tasks.pop(change.task_id, None)


def known_completions(
    messages: Sequence[Inbound], known: Mapping[str, Task], now: float
) -> list[Transition]:
    """The transitions of messages that only complete known tasks, by task id, which is the order of locks.
    Empty for all others."""
    moves: dict[str, Transition] = {}
    for message in messages:
        changes = message.changes
        if changes.output or changes.metrics or changes.checkpoint:
            return []
        for change in changes.task:
            task = known.get(change.task_id)
            if task is None or task.project != message.project or task.id in moves:
                return []
            move = completion(change, task, message.node, now)
            if move is None:
                return []
            moves[task.id] = move
    return [moves[task_id] for task_id in sorted(moves)]


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
