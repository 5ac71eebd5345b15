"""The circumstances of a waiting task: its parents, its limits, the pauses of queues and the nodes.

Promises: all is read at one moment. Otherwise a task that starts between two reads would seem to be blocked
by itself. Never: writes, or explains (`queue/why.py` does).
"""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from holdfast.core.limit import Limit
from holdfast.core.queue_pause import QueuePause
from holdfast.core.task import ENDED, Status, Task
from holdfast.store.rows import (
    NodeRow,
    read_dependencies,
    read_limits,
    read_nodes,
    read_queues,
)
from holdfast.store.script import Script, call

HOLDERS_MAX: Final = 10


class Holder(NamedTuple):
    """A run that holds a limit."""

    task_id: str
    node: str | None
    since: float | None


class LimitInUse(NamedTuple):
    """A limit of the task, and the first of its holders."""

    limit: Limit
    holders: list[Holder]


class Situation(msgspec.Struct, frozen=True):
    """A task and what it may wait for. Fields that do not matter in its status are empty."""

    task: Task
    now: float
    waits_for: dict[str, str] = {}
    """Parents that have not settled, with their status."""
    held_ends: frozenset[str] = frozenset()
    """Those parents that have ended, while another transaction holds the row of this task."""
    pauses: list[QueuePause] = []
    nodes: list[NodeRow] = []
    limits: list[LimitInUse] = []


def read_situation(task_id: str, now: float) -> Script[Situation | None]:
    """None if there is no such task."""
    tasks: list[Task] = yield call("get_tasks", ids=[task_id])
    if not tasks:
        return None
    task = tasks[0]
    match task.status:
        case Status.BLOCKED:
            waits_for = yield from _parents(task)
            held_ends = yield from _held_ends(task, waits_for)
            return Situation(task, now, waits_for=waits_for, held_ends=held_ends)
        case Status.QUEUED:
            pauses = yield from read_queues()
            nodes = yield from read_nodes()
            limits = (yield from _limits_of(task)) if task.limits else []
            return Situation(task, now, pauses=pauses, nodes=nodes, limits=limits)
        case Status.RUNNING:
            return Situation(task, now, nodes=(yield from read_nodes()))
        case _:
            return Situation(task, now)


def _parents(task: Task) -> Script[dict[str, str]]:
    dependencies = yield from read_dependencies(task.id)
    waiting = [parent.parent_id for parent in dependencies if not parent.is_settled]
    parents: list[Task] = yield call("get_tasks", ids=waiting)
    status = {parent.id: parent.status.value for parent in parents}
    return {parent_id: status.get(parent_id, "missing") for parent_id in waiting}


def _held_ends(task: Task, waits_for: dict[str, str]) -> Script[frozenset[str]]:
    ended = [parent_id for parent_id, status in waits_for.items() if status in ENDED]
    rows = (yield call("held_ends", parents=ended, id=task.id)) if ended else []
    return frozenset(row[0] for row in rows)


def _limits_of(task: Task) -> Script[list[LimitInUse]]:
    in_use = []
    for limit in (yield from read_limits(task.limit_names)):
        rows = yield call("limit_holders", name=limit.name, limit=HOLDERS_MAX)
        in_use.append(LimitInUse(limit, [Holder(*row) for row in rows]))
    return in_use
