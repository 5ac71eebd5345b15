"""The simulated disk: whatever fails, the record of the database says what the database did."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.ids import Ids
from holdfast.core.submit import EnqueueRequest, submit
from holdfast.errors import StoreUnavailable
from holdfast.sim.clock import NodeClock
from holdfast.sim.disk import Disk
from holdfast.sim.draw import Draw
from holdfast.sim.loop import SimLoop
from holdfast.sim.server import Database
from holdfast.sim.trace import Trace
from holdfast.store.scripts.insert import insert
from holdfast.store.sqlite.dialect import SqliteDialect


@pytest.fixture
def database(tmp_path: Path) -> Database:
    loop = SimLoop(Draw(1, "test"))  # type: ignore[abstract]
    trace = Trace(loop.time)
    disk = Disk("test-disk", tmp_path, Draw(1, "disk"), trace)
    made = Database(NodeClock(loop), trace, disk)
    asyncio.run(made.open())
    made._connection.execute("PRAGMA wal_autocheckpoint = 1")
    return made


def put(database: Database, task_id: str) -> bool:
    """Whether the caller was told yes."""
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
    """A fault that happens once, at the nth chance."""
    left = [n]

    def happens() -> bool:
        left[0] -= 1
        return left[0] == -1

    return happens


@pytest.mark.parametrize("fault", ["finds_full", "fails_to_sync"])
def test_a_write_is_on_record_exactly_when_it_was_done(
    database: Database, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    """A checkpoint that fails after the commit takes nothing back; kept seed 10139."""
    told = []
    for n in range(40):
        monkeypatch.setattr(database.disk, fault, nth(n))
        told.append(put(database, f"t{n:02}"))
    rows = [row[0] for row in database._connection.execute("SELECT id FROM holdfast_task")]
    assert sorted(rows) == [change.id for change in database.history]
    assert rows == [f"t{n:02}" for n in range(40) if told[n]]
    assert not all(told)
    assert told[-1]
