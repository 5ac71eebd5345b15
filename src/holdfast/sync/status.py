"""The status of a project, its log, and the repair of expired locks.

Promises: counts come from counters and figures that every transaction keeps; no call scans tasks.
The repair is the sweeper's own step, run now.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from holdfast.core.check import check_name, check_page
from holdfast.core.event import Position
from holdfast.core.hub_rules import RULES, HubRules
from holdfast.core.node_identity import NodeState
from holdfast.core.task import LEASED, RunId, Status, Task
from holdfast.core.transition import Transition
from holdfast.core.wire import check_project
from holdfast.errors import InvalidInput
from holdfast.store.script import Script, call
from holdfast.store.store import Store
from holdfast.sync.nodes.scripts import unread_since
from holdfast.sync.rows import ProjectRow, names_of, own, read_project

EXPIRED_MAX = 1_000
"""Leases that have ended, as far as a status counts them."""
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
    lag_seconds: float
    """The age of the first event that a live node has not read."""


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

    def __init__(self, store: Store, rules: HubRules = RULES) -> None:
        self._store = store
        self._rules = rules

    async def status(self, project: str) -> SyncStatus:
        check_project("projectId", project)
        store = self._store
        head = await store.feed.head()
        counted = await store.feed.project_counters(project)
        tasks = dict.fromkeys((status.value for status in Status), 0)
        for _, status, n in counted:
            tasks[status] += n
        row = await store.read(lambda: read_project(project))
        expired, soonest = await store.read(lambda: _lock_ends(project, store.now()))
        figures = await store.read(lambda: _figures(project))
        pending, waiting = await store.read(lambda: _open(project))
        now = store.now()
        since = now - self._rules.silent_seconds
        groups = await store.read(lambda: _count_nodes(project, head.epoch, since))
        read_to = min(
            (n.read_to for n in groups if n.read_to is not None and n.is_live), default=head.offset
        )
        is_behind = read_to < head.offset
        unread = await store.read(lambda: unread_since([read_to])) if is_behind else {}
        leased = sum(tasks[status.value] for status in LEASED)
        return SyncStatus(
            project=row,
            head=head,
            oldest=await store.read(_oldest),
            tasks=tasks,
            held=await store.read(lambda: _held(project)),
            nodes=_by_liveness(groups),
            locks_held=max(0, leased - expired),
            locks_expired=expired,
            soonest_expiry_seconds=None if soonest is None else max(0.0, soonest - now),
            figures=figures,
            interventions_pending=pending,
            decisions_open=waiting,
            lag_events=max(0, head.offset - read_to),
            lag_seconds=max(0.0, now - unread.get(read_to, now)),
        )

    async def log(
        self,
        project: str,
        *,
        after: int | None = 0,
        limit: int = 100,
        task_id: str | None = None,
        node: str | None = None,
        outcome: str | None = None,
    ) -> list[LogEntry]:
        """One page of the log, oldest first. `after`: None for the last entries."""
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


class NodeGroup(NamedTuple):
    """Nodes of one state and liveness, and how far the one that is furthest behind has read."""

    state: str
    is_lost: bool
    is_silent: bool
    n: int
    read_to: int | None

    @property
    def is_live(self) -> bool:
        return not (self.is_lost or self.is_silent)


def _count_nodes(project: str, epoch: str, since: float) -> Script[list[NodeGroup]]:
    rows = yield call(own("count_nodes"), project=project, epoch=epoch, since=since)
    return [NodeGroup(*row) for row in rows]


def _lock_ends(project: str, now: float) -> Script[tuple[int, float | None]]:
    row = (yield call(own("lock_ends"), project=project, now=now, limit=EXPIRED_MAX))[0]
    return int(row[0]), row[1]


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
    after: int | None,
    limit: int,
    *,
    task_id: str | None,
    node: str | None,
    outcome: str | None,
) -> Script[list[LogEntry]]:
    values = {
        "project": project,
        "limit": limit,
        "task_id": task_id,
        "node": node,
        "outcome": outcome,
    }
    if after is None:
        last = yield call(own("read_log_end"), **values)
        return [LogEntry(*row) for row in reversed(last)]
    rows = yield call(own("read_log"), after_id=after, **values)
    return [LogEntry(*row) for row in rows]


def _expired(
    project: str | None, now: float, limit: int
) -> Script[tuple[list[Task], dict[str, str]]]:
    tasks: list[Task] = yield call(own("expired_locks"), project=project, now=now, limit=limit)
    return tasks, (yield from names_of(tasks))


def _by_liveness(groups: list[NodeGroup]) -> dict[str, int]:
    counts = {"live": 0, "late": 0, "gone": 0, "quarantined": 0}
    for group in groups:
        if group.state == NodeState.QUARANTINED:
            name = "quarantined"
        elif group.is_live:
            name = "live"
        else:
            name = "gone" if group.is_lost else "late"
        counts[name] += group.n
    return counts
