"""Writes the tags of tasks beside their rows, for searches.

Promises: the rows of `holdfast_task_tag` are the tags of the task rows, in the same transaction.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.decide import Transition
from holdfast.core.task import Task
from holdfast.store.script import Script, call, call_rows


def add(tasks: Sequence[Task]) -> Script[None]:
    """Adds the tags of new tasks."""
    tagged = [task for task in tasks if task.tags_json is not None]
    if tagged:
        rows = [(tag, task.id, task.project) for task in tagged for tag in task.tags]
        yield call_rows("add_tags", rows)


def change(transitions: Sequence[Transition]) -> Script[None]:
    """Writes the tags of tasks that have others than before."""
    changed = {
        move.after.id: move.after
        for move in transitions
        if move.after.tags_json != move.before.tags_json
    }
    if changed:
        yield call_rows("write_tags", [(task.id, task.tags_json) for task in changed.values()])
        yield call("forget_tags", ids=sorted(changed))
        yield from add(list(changed.values()))
