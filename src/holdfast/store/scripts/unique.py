"""Takes unique windows for new tasks (`core/unique.py`).

Promises: of concurrent enqueues of one window, one makes a task and the others are answered with it. Locks
windows in one order, before any task.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from holdfast.core.submit import Submission
from holdfast.core.task import Task
from holdfast.core.unique import is_taken
from holdfast.store.script import Script, call, call_rows

Window: TypeAlias = tuple[str, str, str]
"""Project, type and key."""


def take(group: Sequence[Submission], now: float) -> Script[dict[str, Task]]:
    """Takes the windows of new tasks. Returns the holders of those that are taken, by the id of the new
    task."""
    asking = [submission for submission in group if submission.unique is not None]
    if not asking:
        return {}
    first: dict[Window, Task] = {}
    for submission in asking:
        first.setdefault(_window(submission), submission.task)
    wanted = sorted(first)
    yield call_rows("take_windows", [(*window, first[window].id) for window in wanted], now=now)
    rows = yield call_rows("lock_windows", wanted)
    held: dict[Window, tuple[str, float]] = {
        (row[0], row[1], row[2]): (row[3], row[4]) for row in rows
    }
    # Read after the locks: a transaction that was waited for may have changed the holder.
    stored: list[Task] = yield call("get_tasks", ids=sorted({each[0] for each in held.values()}))
    tasks = {task.id: task for task in (*stored, *first.values())}
    moved: dict[Window, str] = {}
    answers: dict[str, Task] = {}
    for submission in asking:
        window, task, unique = _window(submission), submission.task, submission.unique
        holder_id, taken_at = held[window]
        holder = tasks.get(holder_id)
        assert unique is not None
        if holder_id == task.id:
            continue
        if holder is not None and is_taken(unique, holder, taken_at, now):
            answers[task.id] = holder
        else:
            held[window], tasks[task.id], moved[window] = (task.id, now), task, task.id
    if moved:
        yield call_rows("move_windows", [(*window, moved[window]) for window in moved], now=now)
    return answers


def _window(submission: Submission) -> Window:
    return submission.task.project, submission.task.type, submission.unique_key
