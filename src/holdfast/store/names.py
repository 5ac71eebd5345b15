"""Which task an id, or a name that a node gave, stands for.

Promises: an id always stands for its task. A name belongs to its project: a node cannot hide a task of
another project behind one. Never: guesses between two tasks of one name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from holdfast.core.errors import AmbiguousId
from holdfast.core.task import Task
from holdfast.store.script import Script, call

SHOWN_MAX: Final = 5
"""Tasks that the error about a name of several tasks lists."""


def candidates(names: Sequence[str]) -> Script[dict[str, list[Task]]]:
    """All tasks that each name may stand for: the one with this id comes first."""
    by_id: list[Task] = yield call("get_tasks", ids=list(names))
    rows = yield call("tasks_named", names=list(names))
    named: list[Task] = []
    if rows:
        named = yield call("get_tasks", ids=sorted({row[1] for row in rows}))
    tasks = {task.id: task for task in named}
    found = {task.id: [task] for task in by_id}
    for name, task_id in rows:
        if task_id in tasks and task_id != name:
            found.setdefault(name, []).append(tasks[task_id])
    return found


def resolve(names: Sequence[str], projects: Collection[str] | None) -> Script[dict[str, Task]]:
    """The tasks of ids and names, within the projects (None: all). AmbiguousId if a name stands for
    several."""
    by_id: list[Task] = yield call("get_tasks", ids=list(names))
    found = {task.id: task for task in by_id if projects is None or task.project in projects}
    rest = [name for name in names if name not in found]
    if rest:
        rows = yield from candidates(rest)
        for name, tasks in rows.items():
            visible = [task for task in tasks if projects is None or task.project in projects]
            if visible:
                found[name] = _one(name, visible)
    return found


def _one(name: str, tasks: Iterable[Task]) -> Task:
    first, *others = sorted(tasks, key=lambda task: (task.project, task.id))
    if others:
        shown = [first, *others][:SHOWN_MAX]
        ids = ", ".join(f"{task.id} ({task.project})" for task in shown)
        raise AmbiguousId(f"several projects have a task '{name}': give the id of one, {ids}")
    return first
