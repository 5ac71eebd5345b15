"""The database of a simulated cluster: the real SQLite store behind the network, with every change of a
row on record.

Promises: a script runs at the server in one transaction when its message arrives; what it committed
survives the server's crash; whatever changed a task's row is in the history, in order.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar

import apsw

from holdfast.errors import StoreUnavailable
from holdfast.sim.clock import NodeClock
from holdfast.sim.disk import Disk
from holdfast.sim.loop import NODE
from holdfast.sim.net import ServerGone
from holdfast.sim.trace import Trace
from holdfast.store.script import Script
from holdfast.store.sqlite import connection
from holdfast.store.sqlite.driver import SqliteDriver

T = TypeVar("T")
NAME: Final = "db"
PRUNED: Final = "pruned"
"""The status, in the history, of a task whose row is gone."""
COLUMNS: Final = """id, type, queue, was, status, fence, version, before_fence, before_version,
    attempts, node, limits, waiting_on, started_at, due_at, deaths, gate"""
WATCH: Final = f"""
CREATE TEMP TABLE sim_change (seq INTEGER PRIMARY KEY, {COLUMNS});
CREATE TEMP TRIGGER sim_insert AFTER INSERT ON main.holdfast_task BEGIN
    INSERT INTO sim_change ({COLUMNS})
    VALUES (new.id, new.type, new.queue, NULL, new.status, new.fence, new.version, 0, 0, new.attempts,
        new.node, new.limits, new.waiting_on, new.started_at, new.due_at, new.deaths, new.gate);
END;
CREATE TEMP TRIGGER sim_update AFTER UPDATE ON main.holdfast_task
WHEN old.version <> new.version OR old.status <> new.status OR old.fence <> new.fence BEGIN
    INSERT INTO sim_change ({COLUMNS})
    VALUES (new.id, new.type, new.queue, old.status, new.status, new.fence, new.version, old.fence,
        old.version, new.attempts, new.node, new.limits, new.waiting_on, new.started_at, new.due_at,
        new.deaths, new.gate);
END;
CREATE TEMP TRIGGER sim_delete AFTER DELETE ON main.holdfast_task BEGIN
    INSERT INTO sim_change ({COLUMNS})
    VALUES (old.id, old.type, old.queue, old.status, '{PRUNED}', old.fence, old.version + 1, old.fence,
        old.version, old.attempts, old.node, old.limits, old.waiting_on, old.started_at, old.due_at,
        old.deaths, old.gate);
END;
"""
NONE: Final[frozenset[str]] = frozenset()
TAKE: Final = f"DELETE FROM sim_change RETURNING {COLUMNS}, seq"


class Change(NamedTuple):
    """One change of one task's row; those of a transaction share its number."""

    transaction: int
    at: float
    by: str
    id: str
    type: str
    queue: str
    was: str | None
    status: str
    fence: int
    version: int
    before_fence: int
    before_version: int
    attempts: int
    node: str | None
    limits: str | None
    waiting_on: int
    started_at: float | None
    due_at: float
    deaths: int
    gate: str | None


class Left(NamedTuple):
    """Parents whose dependents were not all told when a transaction had ended."""

    transaction: int
    at: float
    by: str
    parents: frozenset[str]


class Database:
    """The server's side. Without a disk, what is committed is safe by definition."""

    def __init__(self, clock: NodeClock, trace: Trace, disk: Disk | None = None) -> None:
        self.clock = clock
        self.disk = disk
        self._trace = trace
        self.driver = SqliteDriver(disk.url if disk else "", clock, inline=True)
        self.history: list[Change] = []
        self.left: list[Left] = []
        """Of each commit that changed which cascades are left."""
        self.transactions = 0
        self.lost: list[str] = []
        """Commits that were acknowledged and are not there after a power loss."""
        self._state: dict[str, Change] = {}
        self._maybe: dict[str, list[Change]] = {}
        """What transactions without a known end would have made of each task."""
        self._pending: list[Change] = []
        self._pending_left: Left | None = None
        self._maybe_left: dict[int, Left] = {}
        """The same of cascades, by transaction."""
        self.when_lost: Callable[[Change, Change], None] = lambda before, after: None
        """Called when a runner is taken for dead."""

    async def open(self) -> None:
        await self.driver.open()
        self._connection.execute(WATCH)

    @property
    def _connection(self) -> apsw.Connection:
        assert self.driver._writer is not None
        return self.driver._writer

    def edges(self) -> list[tuple[str, str]]:
        """(child, parent) of every dependency."""
        rows: list[Any] = self._connection.execute(
            "SELECT child_id, parent_id FROM holdfast_edge"
        ).fetchall()
        return [(row[0], row[1]) for row in rows]

    def cascades(self) -> frozenset[str]:
        """Parents whose dependents are not all told yet."""
        rows: list[Any] = self._connection.execute(
            "SELECT parent_id FROM holdfast_cascade"
        ).fetchall()
        return frozenset(row[0] for row in rows)

    def rows(self, text: str, *values: object) -> list[Any]:
        """What an onlooker reads."""
        found: list[Any] = self._connection.execute(text, values).fetchall()
        return found

    def running_on(self, life: str) -> list[str]:
        """What the rows say that a process runs."""
        found = self.rows("SELECT id, node FROM holdfast_task WHERE status = 'running' ORDER BY id")
        return [task_id for task_id, node in found if (node or "").partition(":")[0] == life]

    def changed_by(self, task_id: str) -> str:
        """Who made the latest change of a task."""
        return self._state[task_id].by if task_id in self._state else NAME

    def run(self, make: Callable[[], Script[T]], by: str, at: float) -> T:
        """One script, committed."""
        self.transactions += 1
        self._pending, self._pending_left = [], None
        answers: list[T] = []
        if self.disk is not None:
            self.disk.has_committed = False
        caller = NODE.set(
            by
        )  # The code of a script is the caller's, and runs where the caller does.
        try:
            self.driver._write_inline(
                lambda writer: connection.run(writer, self._watched(make, by, at, answers))
            )
        except StoreUnavailable:
            if self.disk is not None and self.disk.is_dead:
                self._unknown()
                raise ServerGone from None
            if self.disk is None or not self.disk.has_committed:
                self._unknown()
                raise
        finally:
            NODE.reset(caller)
        self._committed(self._pending, self._pending_left)
        return answers[-1]

    def read(self, make: Callable[[], Script[T]]) -> T:
        """A script that changes nothing."""
        try:
            return connection.run(self._connection, make())
        except apsw.Error as error:
            if self.disk is not None and self.disk.is_dead:
                raise ServerGone from None
            raise connection.translated(error, "SQLite refused to read") from error

    def _watched(
        self, make: Callable[[], Script[T]], by: str, at: float, answers: list[T]
    ) -> Script[None]:
        before = self._connection.total_changes()
        answers.append((yield from make()))
        if self._connection.total_changes() == before:
            return
        rows: list[Any] = sorted(self._connection.execute(TAKE).fetchall(), key=lambda r: r[-1])
        self._pending = [Change(self.transactions, at, by, *row[:-1]) for row in rows]
        self._pending_left = Left(self.transactions, at, by, self.cascades())

    def _committed(self, changes: list[Change], left: Left | None) -> None:
        if left is not None and left.parents != (self.left[-1].parents if self.left else NONE):
            self.left.append(left)
        for change in changes:
            before = self._state.get(change.id)
            if before is not None and change.deaths > before.deaths:
                self.when_lost(before, change)
            self.history.append(change)
            self._state[change.id] = change
            self._trace.step(f"{change.id} {change.was} {change.status} {change.fence} {change.by}")

    def _unknown(self) -> None:
        for change in self._pending:
            self._maybe.setdefault(change.id, []).append(change)
        if self._pending_left is not None:
            self._maybe_left[self.transactions] = self._pending_left

    def power_loss(self) -> None:
        """The machine dies and comes back: what was acknowledged must be there."""
        if self.disk is None:
            return
        found = self.disk.die()
        with contextlib.suppress(apsw.Error):
            self._connection.close()
        self.driver._writer = None
        self.disk.revive(found)
        self.driver._open_writer()
        self._connection.execute(WATCH)
        self._compare()

    def _compare(self) -> None:
        """Restart equals the state before, but for what had no known end."""
        rows: list[Any] = self._connection.execute(
            "SELECT id, version, status, fence FROM holdfast_task"
        ).fetchall()
        there = {row[0]: row[1:] for row in rows}
        for task_id, change in self._state.items():
            if change.status == PRUNED or (task_id not in there and self._was_pruned(task_id)):
                continue
            if task_id not in there or there[task_id][0] < change.version:
                self.lost.append(
                    f"{task_id} was at version {change.version}, now {there.get(task_id)}"
                )
        for task_id, state in sorted(there.items()):
            known = self._state.get(task_id)
            if known is None or state[0] > known.version:
                self._adopt(task_id, state)
        self._maybe.clear()
        self._maybe_left.clear()

    def _was_pruned(self, task_id: str) -> bool:
        """By a transaction without an answer that was durable after all."""
        gone = [change for change in self._maybe.get(task_id, []) if change.status == PRUNED]
        if gone:
            self.history.append(gone[0])
            self._state[task_id] = gone[0]  # The next power loss must not miss it once more.
        return bool(gone)

    def _adopt(self, task_id: str, state: tuple[int, str, int]) -> None:
        """A transaction without an answer that was durable after all."""
        maybe = self._maybe.get(task_id, [])
        for change in maybe:
            if (change.version, change.status, change.fence) == state:
                self._trace.sometimes("unanswered-but-durable")
                wrote = change.transaction
                self._committed(
                    [c for c in maybe if c.transaction == wrote], self._maybe_left.get(wrote)
                )
                return
        self.lost.append(f"{task_id} is in a state {state} that nobody wrote")
