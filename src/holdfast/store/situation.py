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
from holdfast.store.scripts.turns import lane_of

HOLDERS_MAX: Final = 10
AHEAD_MAX: Final = 1_000
KEYS_SHOWN: Final = 100


class Holder(NamedTuple):
    """A run that holds a limit."""

    task_id: str
    node: str | None
    since: float | None


class LimitInUse(NamedTuple):
    """A limit of the task, and the first of its holders."""

    limit: Limit
    holders: list[Holder]


class Place(NamedTuple):
    """Where a ready task of a fair type stands."""

    key: str
    ahead: int
    """Tasks of the same key that start before it, at most `AHEAD_MAX`."""
    keys: int
    """Keys with waiting tasks, its own included, at most `KEYS_SHOWN`."""
    round: int
    """The sum of the weights of these keys."""


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
    place: Place | None = None
    """Of a ready task whose type is fair."""


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
            place = (yield from _place(task, now)) if _is_in_turn(task) else None
            return Situation(task, now, pauses=pauses, nodes=nodes, limits=limits, place=place)
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


def _is_in_turn(task: Task) -> bool:
    return task.fair_key is not None and task.gate is None


def _place(task: Task, now: float) -> Script[Place]:
    lane = lane_of(task)._asdict()
    key = task.fair_key or ""
    ahead = yield call("fair_ahead", **lane, key=key, due=task.due_at, limit=AHEAD_MAX)
    rows = yield call("fair_keys", **lane, first="", most=KEYS_SHOWN, due=now)
    weights = [weight for _, weight, is_ready in rows if is_ready]
    return Place(key, ahead[0][0], len(weights), sum(weights))
