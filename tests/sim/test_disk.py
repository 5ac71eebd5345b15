"""The simulated disk: the recorded history matches the database after any disk fault."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import apsw
import pytest

from holdfast.core.ids import Ids
from holdfast.core.request import EnqueueRequest
from holdfast.core.submit import submit
from holdfast.errors import StoreUnavailable
from holdfast.sim.clock import NodeClock
from holdfast.sim.disk import Disk
from holdfast.sim.draw import Draw
from holdfast.sim.loop import SimLoop
from holdfast.sim.server import Database
from holdfast.sim.trace import Trace
from holdfast.store.script import Script
from holdfast.store.scripts.insert import insert
from holdfast.store.sqlite.dialect import SqliteDialect


@pytest.fixture
def database(tmp_path: Path) -> Database:
    loop = SimLoop(Draw(1, "test"))  # type: ignore[abstract]
    trace = Trace(loop.time)
    disk = Disk("test-disk", tmp_path, Draw(1, "disk"), trace)
    database = Database(NodeClock(loop), trace, disk)
    asyncio.run(database.open())
    database._connection.execute("PRAGMA wal_autocheckpoint = 1")
    return database


def put(database: Database, task_id: str) -> bool:
    """Inserts a task. Returns whether it was acknowledged."""
    dialect, ids = SqliteDialect(), Ids(Draw(1, task_id))
    task = submit(EnqueueRequest(type="work"), task_id=task_id, now=1.0)
    try:
        database.run(
            lambda: insert([task], now=1.0, record_id=ids.record(1.0), recorder=dialect), "c", 1.0
        )
    except StoreUnavailable:
        return False
    return True


def nth(n: int) -> Any:
    """A fault that occurs once, at the nth opportunity."""
    remaining = [n]

    def happens() -> bool:
        remaining[0] -= 1
        return remaining[0] == -1

    return happens


@pytest.mark.parametrize("fault", ["finds_full", "fails_to_sync"])
def test_history_contains_exactly_the_committed_writes(
    database: Database, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    """A checkpoint that fails after the commit does not undo it; kept seed 10139."""
    acknowledged = []
    for n in range(40):
        monkeypatch.setattr(database.disk, fault, nth(n))
        acknowledged.append(put(database, f"t{n:02}"))
    rows = [row[0] for row in database._connection.execute("SELECT id FROM holdfast_task")]
    assert sorted(rows) == [change.id for change in database.history]
    assert rows == [f"t{n:02}" for n in range(40) if acknowledged[n]]
    assert not all(acknowledged)
    assert acknowledged[-1]


def test_a_claim_that_ends_an_old_lease_is_two_changes(database: Database) -> None:
    """A claim by id that finds an ended lease writes the row once, and the feed has two events."""
    assert put(database, "t1")
    write = (
        "UPDATE holdfast_task SET status = 'running', attempts = 1, fence = ?, version = ?, "
        "node = 'n', started_at = 1.0, lease_until = 9.0"
    )

    def run(fence: int, version: int) -> Script[None]:
        database._connection.execute(write, (fence, version))
        yield from ()

    first = database.history[-1].version
    database.run(lambda: run(1, first + 1), "a", 2.0)
    database.run(lambda: run(3, first + 3), "b", 3.0)
    changes = [(c.was, c.status, c.before_fence, c.fence, c.attempts) for c in database.history[1:]]
    assert changes == [
        ("queued", "running", 0, 1, 1),
        ("running", "queued", 1, 2, 0),
        ("queued", "running", 2, 3, 1),
    ]
    versions = [(change.before_version, change.version) for change in database.history[1:]]
    assert versions == [(first + n, first + n + 1) for n in range(3)]


def test_what_a_power_loss_destroyed_is_judged_even_if_the_disk_refuses_the_next_start(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file without syncs comes back empty. Its schema is written again, which a full disk refuses."""
    assert put(database, "t00")
    disk = database.disk
    assert disk is not None
    monkeypatch.setattr(disk, "die", dict)
    disk.full = 1.0
    database.power_loss()
    assert disk.full == 1.0
    assert database.lost == ["t00 was at version 1, now None"]


def test_a_refused_transaction_leaves_nothing_in_the_history(database: Database) -> None:
    """The history reads only what the triggers report as changed, and a rollback undoes what it has read."""
    parents = [change(database, "a", refused=False), change(database, "b", refused=True)]
    assert put(database, "t")
    assert [found.id for found in database.history] == ["task-a", "t"]
    assert parents == [True, False]
    assert [left.parents for left in database.left] == [frozenset({"parent-a"})]
    assert database.cascades() == {"parent-a"}


def change(database: Database, name: str, *, refused: bool) -> bool:
    """Inserts a task and a cascade. Returns whether it was committed. A refusal comes with the commit, after
    the history has read the changes."""

    def script() -> Script[None]:
        dialect, ids = SqliteDialect(), Ids(Draw(1, name))
        task = submit(EnqueueRequest(type="work"), task_id=f"task-{name}", now=1.0)
        yield from insert([task], now=1.0, record_id=ids.record(1.0), recorder=dialect)
        database._connection.execute(
            "INSERT INTO holdfast_cascade (parent_id, after_child) VALUES (?, '')",
            (f"parent-{name}",),
        )

    connection = database._connection
    connection.set_commit_hook(lambda: refused)
    try:
        database.run(script, "c", 1.0)
    except apsw.ConstraintError:
        return False
    finally:
        connection.set_commit_hook(None)
    return True


def test_what_the_observer_reads_follows_each_change(database: Database) -> None:
    """Queued tasks and paused queues are read again only when a trigger has reported a change."""
    assert (database.has_queued(), database.paused_queues()) == (False, [])
    assert not change(database, "a", refused=True)
    assert not database.has_queued()
    assert put(database, "t")
    assert database.has_queued()
    database.rows("DELETE FROM holdfast_task")
    assert not database.has_queued()
    database.rows("INSERT INTO holdfast_queue (name, paused_at) VALUES ('default', 1.0)")
    assert database.paused_queues() == ["default"]
    database.rows("UPDATE holdfast_queue SET paused_at = NULL")
    assert database.paused_queues() == []
