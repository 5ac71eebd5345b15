"""Tasks whose next death makes them dead letters start one at a time in a process.

Promises: a task that kills its process does not make other tasks dead letters, and those spend no attempt.
Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from holdfast.core.command import Snooze
from holdfast.core.task import Task

APART_SECONDS: Final = 1.0
"""The interval between starts of tasks that may kill this process."""


def is_on_last_chance(task: Task) -> bool:
    """Whether the next death of its runner makes the task a dead letter."""
    return task.deaths > 0 and task.deaths >= task.options.max_deaths - 1


def to_snooze(claimed: Sequence[Task], owned: Iterable[Task]) -> list[tuple[Task, Snooze]]:
    """The claimed tasks that must not start now, beside the ones that the process owns already."""
    last = [task for task in claimed if is_on_last_chance(task)]
    before = sum(is_on_last_chance(task) for task in owned)
    if before + len(last) <= 1:
        return []
    reason = "its workers have died: it runs apart from others"
    return [
        (task, Snooze(n * APART_SECONDS, reason))
        for n, task in enumerate(last, start=min(1, before))
    ]
