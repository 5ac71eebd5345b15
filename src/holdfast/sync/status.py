"""The status of a project, its log, and the repair of expired locks.

Promises: counts come from counters and figures that every transaction keeps; no call scans tasks.
The repair is the sweeper's own step, run now.
"""

from __future__ import annotations

import msgspec

from holdfast.core.check import check_choice, check_name, check_page
from holdfast.core.event import Position
from holdfast.core.node_identity import NodeState
from holdfast.core.task import RunId, Status, Task
from holdfast.core.transition import Transition
from holdfast.core.wire import check_project
from holdfast.errors import InvalidInput
from holdfast.store.script import Script, call
from holdfast.store.store import Store
from holdfast.sync.nodes import Nodes, NodeView
from holdfast.sync.rows import ProjectRow, names_of, own, read_project

NODES_MAX = 1_000
"""Nodes that a status counts."""
LOCKS_MAX = 1_000
"""Locks that a status counts."""
OUTCOMES = ("accepted", "duplicate", "refused", "merged", "conflict", "late")


class SyncStatus(msgspec.Struct, frozen=True):
    """The figures of a project."""

    project: ProjectRow
    head: Position
    oldest: Position
    tasks: dict[str, int]
    held: int
    nodes: dict[str, int]
    locks_held: int
    locks_expired: int
    soonest_expiry_seconds: float | None
    figures: dict[str, int]
    interventions_pending: int
    decisions_open: int
    lag_events: int


class LogEntry(msgspec.Struct, frozen=True):
    """One act of a node."""

    id: int
    at: float
    node: str
    op: str
    task_id: str | None
    mutation_id: str | None
    outcome: str
    code: str | None
    resolution: str | None
    from_version: int | None
    to_version: int | None
    clock: int


class FixedLock(msgspec.Struct, frozen=True):
    """A lock that had ended."""

    task_id: str
    locked_by: str | None
    expired_seconds_ago: float
    new_status: Status
    fence: int


class Fixed(msgspec.Struct, frozen=True):
    locks: list[FixedLock]
    has_more: bool


class Monitor:
    """The use cases of monitoring."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._nodes = Nodes(store)

    async def status(self, project: str) -> SyncStatus:
        check_project("projectId", project)
        store = self._store
        head = await store.feed.head()
        counted = await store.feed.project_counters(project)
        tasks = dict.fromkeys((status.value for status in Status), 0)
        for _, status, n in counted:
            tasks[status] += n
        row = await store.read(lambda: read_project(project))
        locks: list[Task] = await store.read(lambda: _locks(project))
        figures = await store.read(lambda: _figures(project))
        pending, waiting = await store.read(lambda: _open(project))
        views = await self._nodes.list(project, limit=NODES_MAX)
        now = store.now()
        ends = [task.lease_until for task in locks if task.lease_until is not None]
        alive = [end for end in ends if end > now]
        return SyncStatus(
            project=row,
            head=head,
            oldest=await store.read(_oldest),
            tasks=tasks,
            held=await store.read(lambda: _held(project)),
            nodes=_by_liveness(views),
            locks_held=len(alive),
            locks_expired=len(ends) - len(alive),
            soonest_expiry_seconds=min(alive) - now if alive else None,
            figures=figures,
            interventions_pending=pending,
            decisions_open=waiting,
            lag_events=max((view.lag_events or 0 for view in views if view.is_live), default=0),
        )

    async def log(
        self,
        project: str,
        *,
        after: int = 0,
        limit: int = 100,
        task_id: str | None = None,
        node: str | None = None,
        outcome: str | None = None,
    ) -> list[LogEntry]:
        """One page of the log, oldest first."""
        check_page(limit)
        if outcome is not None and outcome not in OUTCOMES:
            raise InvalidInput(f"outcome is '{outcome}': use one of {', '.join(OUTCOMES)}")
        for field, value in (("taskId", task_id), ("nodeId", node)):
            if value is not None:
                check_name(field, value)
        return await self._store.read(
            lambda: _log(project, after, limit, task_id=task_id, node=node, outcome=outcome)
        )

    async def fix_expired(
        self, project: str | None = None, *, limit: int = 100, dry_run: bool = False
    ) -> Fixed:
        """Ends the runs whose lease has ended."""
        check_page(limit)
        now = self._store.now()
        tasks, names = await self._store.read(lambda: _expired(project, now, limit))
        fixed = []
        if dry_run:
            fixed = [_fixed(task, task, names, now) for task in tasks]
        elif tasks:
            rulings = await self._store.runs.expire([RunId(task.id, task.fence) for task in tasks])
            pairs = zip(tasks, rulings, strict=True)
            fixed = [
                _fixed(task, ruling.after, names, now)
                for task, ruling in pairs
                if isinstance(ruling, Transition)
            ]
        return Fixed(fixed, len(tasks) == limit)


def _fixed(task: Task, after: Task, names: dict[str, str], now: float) -> FixedLock:
    ago = max(0.0, now - (task.lease_until or now))
    return FixedLock(names[task.id], task.node, ago, after.status, after.fence)


def _locks(project: str) -> Script[list[Task]]:
    return (yield call(own("held_locks"), project=project, limit=LOCKS_MAX))


def _figures(project: str) -> Script[dict[str, int]]:
    return {row[0]: row[1] for row in (yield call(own("read_tally"), project=project))}


def _open(project: str) -> Script[tuple[int, int]]:
    row = (yield call(own("count_open"), project=project))[0]
    return int(row[0]), int(row[1])


def _held(project: str) -> Script[int]:
    return int((yield call(own("count_held"), project=project))[0][0])


def _oldest() -> Script[Position]:
    epoch, _, oldest = (yield call("feed_position"))[0]
    return Position(epoch, oldest)


def _log(
    project: str,
    after: int,
    limit: int,
    *,
    task_id: str | None,
    node: str | None,
    outcome: str | None,
) -> Script[list[LogEntry]]:
    rows = yield call(
        own("read_log"),
        project=project,
        after_id=after,
        limit=limit,
        task_id=task_id,
        node=node,
        outcome=outcome,
    )
    return [LogEntry(*row) for row in rows]


def _expired(
    project: str | None, now: float, limit: int
) -> Script[tuple[list[Task], dict[str, str]]]:
    tasks: list[Task] = yield call(own("expired_locks"), project=project, now=now, limit=limit)
    return tasks, (yield from names_of(tasks))


def _by_liveness(views: list[NodeView]) -> dict[str, int]:
    counts = {"live": 0, "late": 0, "gone": 0, "quarantined": 0}
    for view in views:
        check_choice("state", view.row.state, NodeState)
        if view.row.state == NodeState.QUARANTINED:
            counts["quarantined"] += 1
        elif view.is_live:
            counts["live"] += 1
        else:
            counts["gone" if view.row.lost_at is not None else "late"] += 1
    return counts
