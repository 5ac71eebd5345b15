"""Finds tasks by the names that nodes use."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Sequence
from typing import Final

import msgspec

from holdfast.core.access import ALL_PROJECTS
from holdfast.core.check import check_name
from holdfast.core.errors import AmbiguousId
from holdfast.core.task import Task
from holdfast.errors import NotFound
from holdfast.store.names import candidates
from holdfast.store.script import Script, call
from holdfast.store.store import Store
from holdfast.sync.rows import own

NAMES_MAX: Final = 10_000
"""Tasks whose names a process remembers."""


class Found(msgspec.Struct, frozen=True):
    """A task that a name stands for."""

    task_id: str
    project: str


class ClientNames:
    """The names that nodes gave to tasks. A task that has none keeps none: nodes name tasks when they create
    them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._names: OrderedDict[str, str | None] = OrderedDict()

    async def of(self, task_ids: Collection[str]) -> dict[str, str]:
        """The names of those tasks that have one. One read for all that are not cached."""
        missing = sorted({id for id in task_ids if id and id not in self._names})
        names: dict[str, str | None] = {}
        if missing:
            rows = await self._store.read(lambda: _clients_of(missing))
            names = dict.fromkeys(missing) | rows
        names |= {id: self._names[id] for id in task_ids if id in self._names}
        self._names.update(names)
        while len(self._names) > NAMES_MAX:
            self._names.popitem(last=False)
        return {id: name for id, name in names.items() if name is not None}


def _clients_of(ids: list[str]) -> Script[dict[str, str | None]]:
    return {row[0]: row[1] for row in (yield call("clients_of", ids=ids))}


def resolve(project: str, names: Sequence[str]) -> Script[dict[str, str]]:
    """The task ids of names: those that nodes gave in the project, then ids of its tasks. A name never
    stands for two tasks: none is given that an id of the project has, and no id that a name has."""
    rows = yield call(own("named_tasks"), project=project, client_ids=list(names))
    found: dict[str, str] = {row[0]: row[1] for row in rows}
    rest = [name for name in names if name not in found]
    tasks: list[Task] = (yield call("get_tasks", ids=rest)) if rest else []
    return found | {task.id: task.id for task in tasks if task.project == project}


async def find_task(
    store: Store, name: str, *, project: str | None, projects: Collection[str]
) -> Found:
    """The task of a name: in the project, or in all projects that the caller may see. NotFound if there is
    none, AmbiguousId if there are several."""
    check_name("taskId", name)
    hits = await store.read(lambda: _find(name, project))
    seen = [hit for hit in hits if ALL_PROJECTS in projects or hit.project in projects]
    if not seen:
        raise NotFound(f"there is no task '{name}'")
    if len(seen) > 1:
        names = ", ".join(sorted(hit.project for hit in seen)[:5])
        raise AmbiguousId(f"several projects have a task '{name}' ({names}): name projectId")
    return seen[0]


def _find(name: str, project: str | None) -> Script[list[Found]]:
    if project is not None:
        ids = yield from resolve(project, [name])
        return [Found(task_id, project) for task_id in ids.values()]
    tasks = (yield from candidates([name])).get(name, [])
    return [Found(task.id, task.project) for task in tasks]
