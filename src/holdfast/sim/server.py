"""The database of a simulated cluster: the SQLite store behind the network, with a history of all row
changes.

Promises: a script runs at the server in one transaction when its message arrives; committed data survives
a crash of the server; the history contains every change of a task row, in order.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
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
"""The status in the history of a task whose row was deleted."""
COLUMNS: Final = """id, type, queue, was, status, fence, version, before_fence, before_version,
    attempts, node, limits, waiting_on, started_at, due_at, deaths, gate, priority"""
TASK: Final = "task"
CASCADE: Final = "cascade"
ROW: Final = "row"
QUEUE: Final = "queue"
FOLLOWED: Final = frozenset({TASK, CASCADE, ROW, QUEUE})
"""What triggers report: a change of a task that the history records, and any change of an unfinished cascade,
of the row of a task and of a queue."""
WATCH: Final = f"""
CREATE TEMP TABLE sim_change (seq INTEGER PRIMARY KEY, {COLUMNS});
CREATE TEMP TRIGGER sim_insert AFTER INSERT ON main.holdfast_task BEGIN
    INSERT INTO sim_change ({COLUMNS})
    VALUES (new.id, new.type, new.queue, NULL, new.status, new.fence, new.version, 0, 0, new.attempts,
        new.node, new.limits, new.waiting_on, new.started_at, new.due_at, new.deaths, new.gate,
        new.priority);
    SELECT sim_touch('{TASK}');
END;
CREATE TEMP TRIGGER sim_update AFTER UPDATE ON main.holdfast_task
WHEN old.version <> new.version OR old.status <> new.status OR old.fence <> new.fence
    OR old.gate IS NOT new.gate BEGIN
    INSERT INTO sim_change ({COLUMNS})
    VALUES (new.id, new.type, new.queue, old.status, new.status, new.fence, new.version, old.fence,
        old.version, new.attempts, new.node, new.limits, new.waiting_on, new.started_at, new.due_at,
        new.deaths, new.gate, new.priority);
    SELECT sim_touch('{TASK}');
END;
CREATE TEMP TRIGGER sim_delete AFTER DELETE ON main.holdfast_task BEGIN
    INSERT INTO sim_change ({COLUMNS})
    VALUES (old.id, old.type, old.queue, old.status, '{PRUNED}', old.fence, old.version + 1, old.fence,
        old.version, old.attempts, old.node, old.limits, old.waiting_on, old.started_at, old.due_at,
        old.deaths, old.gate, old.priority);
    SELECT sim_touch('{TASK}');
END;
"""
TABLES: Final = (
    ("holdfast_cascade", CASCADE),
    ("holdfast_task", ROW),
    ("holdfast_queue", QUEUE),
)
TOUCH: Final = "".join(
    f"CREATE TEMP TRIGGER sim_{name}_{act} AFTER {act} ON main.{table} BEGIN "
    f"SELECT sim_touch('{name}'); END;\n"
    for table, name in TABLES
    for act in ("INSERT", "UPDATE", "DELETE")
)
RUN: Final = frozenset({"running", "stuck"})
"""Statuses of a task that a runner has."""
NONE: Final[frozenset[str]] = frozenset()
TAKE: Final = f"DELETE FROM sim_change RETURNING {COLUMNS}, seq"


class Change(NamedTuple):
    """One change of a task row; changes of one transaction share its number."""

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
    priority: int


class Left(NamedTuple):
    """Parents with an unfinished cascade at the end of a transaction."""

    transaction: int
    at: float
    by: str
    parents: frozenset[str]


class Database:
    """The server. Without a disk, commits are always durable."""

    def __init__(self, clock: NodeClock, trace: Trace, disk: Disk | None = None) -> None:
        self.clock = clock
        self.disk = disk
        self._trace = trace
        self.driver = SqliteDriver(disk.url if disk else "", clock, inline=True)
        self.history: list[Change] = []
        self.left: list[Left] = []
        """One entry for each commit that changed the set of unfinished cascades."""
        self.transactions = 0
        self.lost: list[str] = []
        """Acknowledged commits that are missing after a power loss."""
        self._touched = set(FOLLOWED)
        """What may have changed since it was last read. Most transactions change neither."""
        self._cascades = NONE
        """Parents with an unfinished cascade, when they were last read."""
        self._has_queued = False
        self._paused: list[str] = []
        self._state: dict[str, Change] = {}
        self._maybe: dict[str, list[Change]] = {}
        """Changes of transactions with an unknown outcome, by task."""
        self._pending: list[Change] = []
        self._pending_left: Left | None = None
        self._maybe_left: dict[int, Left] = {}
        """Unfinished cascades of transactions with an unknown outcome, by transaction."""
        self.when_lost: Callable[[Change, Change], None] = lambda before, after: None
        """Called when a task is taken from its runner."""

    async def open(self) -> None:
        await self.driver.open()
        self._watch()

    def close(self) -> None:
        """Ends the connection of a run that is over. SQLite holds the function of `_watch` where the garbage
        collector does not look, and with it the whole world of the run."""
        if self.driver._writer is not None:
            self._connection.close(True)

    def _watch(self) -> None:
        """Follows what the transactions of a newly opened connection change."""
        self._connection.create_scalar_function("sim_touch", self._touch, 1)
        self._connection.execute(WATCH + TOUCH)
        self._touched |= FOLLOWED

    def _touch(self, *names: object) -> None:
        self._touched.update(map(str, names))

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
        """Parents with an unfinished cascade."""
        rows: list[Any] = self._connection.execute(
            "SELECT parent_id FROM holdfast_cascade"
        ).fetchall()
        return frozenset(row[0] for row in rows)

    def rows(self, text: str, *values: object) -> list[Any]:
        """Runs a query outside any simulated transaction."""
        rows: list[Any] = self._connection.execute(text, values).fetchall()
        return rows

    def has_queued(self) -> bool:
        """Whether a task is queued. It costs a query only after the row of a task was changed."""
        if ROW in self._touched:
            queued = "SELECT EXISTS (SELECT 1 FROM holdfast_task WHERE status = 'queued')"
            self._has_queued = bool(self.rows(queued)[0][0])
            self._touched.discard(ROW)
        return self._has_queued

    def paused_queues(self) -> list[str]:
        """The names of the paused queues. They cost a query only after a queue was changed."""
        if QUEUE in self._touched:
            paused = self.rows("SELECT name FROM holdfast_queue WHERE paused_at IS NOT NULL")
            self._paused = [name for (name,) in paused]
            self._touched.discard(QUEUE)
        return self._paused

    def running_on(self, life: str) -> list[str]:
        """Ids of the running tasks whose row names this process."""
        running = self.rows(
            "SELECT id, node FROM holdfast_task WHERE status IN ('running', 'stuck') ORDER BY id"
        )
        return [task_id for task_id, node in running if (node or "").partition(":")[0] == life]

    def changed_by(self, task_id: str) -> str:
        """The node that made the latest change of a task."""
        return self._state[task_id].by if task_id in self._state else NAME

    def run(self, make: Callable[[], Script[T]], by: str, at: float) -> T:
        """Runs and commits one script."""
        self.transactions += 1
        self._pending, self._pending_left = [], None
        answers: list[T] = []
        if self.disk is not None:
            self.disk.has_committed = False
        caller = NODE.set(by)  # A script is code of its caller.
        try:
            self.driver._write_inline(partial(self._transact, make, by, at), answers)
        except StoreUnavailable:
            self._touched |= FOLLOWED
            if self.disk is not None and self.disk.is_dead:
                self._outcome_unknown()
                raise ServerGone from None
            if self.disk is None or not self.disk.has_committed:
                self._outcome_unknown()
                raise
        except BaseException:
            self._touched |= FOLLOWED
            raise
        finally:
            NODE.reset(caller)
        self._committed(self._pending, self._pending_left)
        return answers[-1]

    def read(self, make: Callable[[], Script[T]]) -> T:
        """Runs a read-only script."""
        try:
            return connection.run(self._connection, make())
        except apsw.Error as error:
            if self.disk is not None and self.disk.is_dead:
                raise ServerGone from None
            raise connection.translated(error, "SQLite refused to read") from error

    def _transact(
        self,
        make: Callable[[], Script[T]],
        by: str,
        at: float,
        writer: apsw.Connection,
        answers: list[T],
    ) -> None:
        """What `connection.transact` does; before the commit it reads what has changed."""
        writer.execute("BEGIN IMMEDIATE")
        before = writer.total_changes()
        answers.append(connection.run(writer, make()))
        if writer.total_changes() != before:
            self._read_changes(by, at, writer)
        writer.execute("COMMIT")

    def _read_changes(self, by: str, at: float, writer: apsw.Connection) -> None:
        if TASK in self._touched:
            self._touched.discard(TASK)
            rows: list[Any] = sorted(writer.execute(TAKE).fetchall(), key=lambda r: r[-1])
            changes = [Change(self.transactions, at, by, *row[:-1]) for row in rows]
            self._pending = list(_folded(changes))
        if CASCADE in self._touched:
            self._touched.discard(CASCADE)
            self._cascades = self.cascades()
        self._pending_left = Left(self.transactions, at, by, self._cascades)

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

    def _outcome_unknown(self) -> None:
        for change in self._pending:
            self._maybe.setdefault(change.id, []).append(change)
        if self._pending_left is not None:
            self._maybe_left[self.transactions] = self._pending_left

    def power_loss(self) -> None:
        """The machine loses power and restarts: acknowledged commits must survive."""
        if self.disk is None:
            return
        contents = self.disk.die()
        with contextlib.suppress(apsw.Error):
            self._connection.close()
        self.driver._writer = None
        self.disk.revive(contents)
        self._start(self.disk)
        self._watch()
        self._compare()

    def _start(self, disk: Disk) -> None:
        """Opens the database. If its disk refuses a write, the database starts again after the disk was put
        in order, as a supervisor and an operator would do. What was lost is judged after the start."""
        try:
            self.driver._open_writer()
        except StoreUnavailable:
            self._trace.sometimes("started-again")
            with disk.in_order():
                self.driver._open_writer()

    def _compare(self) -> None:
        """Compares the rows with the state before, apart from transactions with an unknown outcome."""
        rows: list[Any] = self._connection.execute(
            "SELECT id, version, status, fence FROM holdfast_task"
        ).fetchall()
        found_rows = {row[0]: row[1:] for row in rows}
        for task_id, change in self._state.items():
            if change.status == PRUNED or (task_id not in found_rows and self._was_pruned(task_id)):
                continue
            if task_id not in found_rows or found_rows[task_id][0] < change.version:
                self.lost.append(
                    f"{task_id} was at version {change.version}, now {found_rows.get(task_id)}"
                )
        for task_id, state in sorted(found_rows.items()):
            last = self._state.get(task_id)
            if last is None or state[0] > last.version:
                self._adopt(task_id, state)
        self._maybe.clear()
        self._maybe_left.clear()

    def _was_pruned(self, task_id: str) -> bool:
        """Whether an unanswered but durable transaction pruned this task."""
        gone = [change for change in self._maybe.get(task_id, []) if change.status == PRUNED]
        if gone:
            self.history.append(gone[0])
            self._state[task_id] = gone[
                0
            ]  # So that the next power loss does not report it as lost.
        return bool(gone)

    def _adopt(self, task_id: str, state: tuple[int, str, int]) -> None:
        """Adds an unanswered but durable transaction to the history."""
        maybe = self._maybe.get(task_id, [])
        for change in maybe:
            if (change.version, change.status, change.fence) == state:
                self._trace.sometimes("unanswered-but-durable")
                wrote = change.transaction
                self._committed(
                    [c for c in maybe if c.transaction == wrote], self._maybe_left.get(wrote)
                )
                return
        self.lost.append(f"{task_id} is in a state {state} that no transaction wrote")


def _folded(changes: list[Change]) -> Iterator[Change]:
    """The changes of a transaction. A new task that the same transaction parks is one change. A claim by id
    that finds an ended lease writes the row once: the end of the run and the claim are two changes."""
    gates = {c.id: c.gate for c in changes if c.was is not None and c.version == c.before_version}
    for change in changes:
        is_gate_only = change.was == change.status and change.version == change.before_version
        if not (is_gate_only and change.fence == change.before_fence):
            is_parked = change.was is None and change.id in gates
            if (
                change.was in RUN
                and change.status in RUN
                and change.fence > change.before_fence + 1
            ):
                yield from _claimed_again(change)
            else:
                yield change._replace(gate=gates[change.id]) if is_parked else change


def _claimed_again(change: Change) -> tuple[Change, Change]:
    """The end of a lease and the claim after it, which use one version and one fence each."""
    fence, version = change.fence - 1, change.version - 1
    ended = change._replace(
        status="queued",
        fence=fence,
        version=version,
        attempts=change.attempts - 1,
        node=None,
        started_at=None,
    )
    return ended, change._replace(was="queued", before_fence=fence, before_version=version)
