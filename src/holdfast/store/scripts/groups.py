"""Writes task groups beside their tasks, and reads them (`core/group.py`).

Promises: a group is written in the transaction of its tasks. A group of a given id is written once; its
repeat is answered with the same tasks.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.group import GroupProgress, NewGroup, check_same
from holdfast.core.submit import Submission
from holdfast.core.task import Status, Task
from holdfast.store.script import Script, call, call_rows
from holdfast.store.scripts.insert import Inserted


def add(group: NewGroup, tasks: Sequence[Submission], now: float) -> Script[dict[str, Inserted]]:
    """Adds the row of a group, before its tasks: it may wait for another transaction with this id. In a
    repeat, returns the answers to tasks that were in unique windows at the first request: these windows may
    be free by now. By the id of the new task."""
    yield call("add_group", id=group.id, project=group.project, size=group.size, now=now)
    [row] = yield call("get_group", id=group.id)
    check_same(group, row[1], row[2])
    if not any(submission.unique for submission in tasks):
        return {}
    members = dict((yield call("group_members", id=group.id, after=-1, limit=group.size)))
    held = {
        submission.task.id: members[nth]
        for nth, submission in enumerate(tasks)
        if submission.unique is not None
        and members.get(nth, submission.task.id) != submission.task.id
    }
    stored: list[Task] = (yield call("get_tasks", ids=sorted(set(held.values())))) if held else []
    statuses = {task.id: task.status for task in stored}
    return {
        task_id: Inserted(holder_id, statuses[holder_id], False)
        for task_id, holder_id in held.items()
        if holder_id in statuses
    }


def add_members(group: NewGroup, inserted: Sequence[Inserted]) -> Script[None]:
    """Adds the tasks of a group in their order. Some may have existed before."""
    rows = [(nth, answer.task_id) for nth, answer in enumerate(inserted)]
    yield call_rows("add_members", rows, id=group.id)


def progress(group_id: str) -> Script[GroupProgress | None]:
    """How far a group is. None if there is no such group."""
    rows = yield call("get_group", id=group_id)
    if not rows:
        return None
    counts = yield call("group_counts", id=group_id)
    [(found_id, project, size, created_at)] = rows
    by_status = {Status(row[0]): row[1] for row in counts}
    return GroupProgress(found_id, project, size, created_at, by_status)
