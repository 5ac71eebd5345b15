"""The database of a simulated cluster: the real SQLite store behind the network, with every change of a
row on record.

Promises: a script runs at the server in one transaction when its message arrives; what it committed
survives the server's crash; whatever changed a task's row is in the history, in order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar

from holdfast.sim.clock import NodeClock
from holdfast.sim.trace import Trace
from holdfast.store.script import Script
from holdfast.store.sqlite.driver import SqliteDriver

T = TypeVar("T")
NAME: Final = "db"
WATCH: Final = """
CREATE TEMP TABLE sim_change (seq INTEGER PRIMARY KEY, id, type, queue, was, status, fence, version,
    before_fence, before_version, attempts, node, limits, waiting_on, started_at);
CREATE TEMP TRIGGER sim_insert AFTER INSERT ON main.holdfast_task BEGIN
    INSERT INTO sim_change (id, type, queue, was, status, fence, version, before_fence, before_version,
        attempts, node, limits, waiting_on, started_at)
    VALUES (new.id, new.type, new.queue, NULL, new.status, new.fence, new.version, 0, 0, new.attempts,
        new.node, new.limits, new.waiting_on, new.started_at);
END;
CREATE TEMP TRIGGER sim_update AFTER UPDATE ON main.holdfast_task
WHEN old.version <> new.version OR old.status <> new.status OR old.fence <> new.fence BEGIN
    INSERT INTO sim_change (id, type, queue, was, status, fence, version, before_fence, before_version,
        attempts, node, limits, waiting_on, started_at)
    VALUES (new.id, new.type, new.queue, old.status, new.status, new.fence, new.version, old.fence,
        old.version, new.attempts, new.node, new.limits, new.waiting_on, new.started_at);
END;
"""
TAKE: Final = """DELETE FROM sim_change RETURNING id, type, queue, was, status, fence, version,
    before_fence, before_version, attempts, node, limits, waiting_on, started_at, seq"""


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


class Database:
    """The server's side."""

    def __init__(self, clock: NodeClock, trace: Trace) -> None:
        self.clock = clock
        self._trace = trace
        self.driver = SqliteDriver("", clock, inline=True)
        self.history: list[Change] = []
        self.transactions = 0

    async def open(self) -> None:
        await self.driver.open()
        assert self.driver._writer is not None
        self.driver._writer.execute(WATCH)

    def edges(self) -> list[tuple[str, str]]:
        """(child, parent) of every dependency."""
        assert self.driver._writer is not None
        rows: list[Any] = self.driver._writer.execute(
            "SELECT child_id, parent_id FROM holdfast_edge"
        ).fetchall()
        return [(row[0], row[1]) for row in rows]

    def run(self, make: Callable[[], Script[T]], by: str, at: float) -> T:
        """One script, committed."""
        value = self.driver._write_inline(make)
        self.transactions += 1
        assert self.driver._writer is not None
        rows: list[Any] = sorted(self.driver._writer.execute(TAKE).fetchall(), key=lambda r: r[-1])
        for row in rows:
            change = Change(self.transactions, at, by, *row[:-1])
            self.history.append(change)
            self._trace.step(f"{change.id} {change.was} {change.status} {change.fence} {by}")
        return value
