"""SQLite alone: group commit that fails whole or not at all, enqueues in a caller's transaction, two
processes on one file."""

from __future__ import annotations

import asyncio
import json
import random
import sqlite3
import stat
import sys
from pathlib import Path

import apsw
import pytest

from holdfast.clock import SystemClock, VirtualClock
from holdfast.core.ids import Ids
from holdfast.core.task import Status
from holdfast.errors import InvalidInput, StoreUnavailable
from holdfast.store.sqlite.dialect import SqliteDialect
from holdfast.store.sqlite.driver import SqliteDriver
from holdfast.store.store import Store
from tests.backends import SqliteBench
from tests.conformance.tasks.helpers import (
    all_tasks,
    asked,
    check_counters,
    claim,
    claim_ids,
    put,
    put_plain,
    read_all,
)

ROLLS_BACK = """CREATE TRIGGER boom BEFORE INSERT ON holdfast_task WHEN new.id = 'boom'
BEGIN SELECT raise(ROLLBACK, 'as a full disk would'); END"""


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "holdfast.db")


@pytest.fixture
async def bench(clock: VirtualClock, path: str) -> SqliteBench:
    return SqliteBench(clock, path)


@pytest.fixture
async def store(bench: SqliteBench) -> Store:
    return await bench.open()


async def test_an_error_that_rolls_back_the_group_is_raised_for_all_of_it(
    bench: SqliteBench, store: Store
) -> None:
    """Some errors (a full disk, an I/O error) make SQLite roll the whole transaction back: no
    caller of that group may get a success."""
    await bench.sql(ROLLS_BACK)
    names = [f"n{n:02}" for n in range(40)]
    names[20] = "boom"
    answers = await asyncio.gather(
        *(store.insert([asked(store, name)]) for name in names), return_exceptions=True
    )
    acknowledged = {
        name
        for name, answer in zip(names, answers, strict=True)
        if not isinstance(answer, BaseException)
    }
    assert {task.id for task in await all_tasks(store)} == acknowledged
    assert "boom" not in acknowledged
    refused = [answer for answer in answers if isinstance(answer, BaseException)]
    assert all(isinstance(answer, StoreUnavailable | apsw.ConstraintError) for answer in refused)
    assert len(await read_all(store)) == len(acknowledged)
    await check_counters(store)
    await bench.close()


async def test_a_connection_of_the_standard_library_is_refused(
    store: Store, bench: SqliteBench, path: str
) -> None:
    """Its copy of SQLite does not see Holdfast's locks: writing through both would destroy the file."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    with pytest.raises(InvalidInput, match="open the file with apsw"):
        await store.insert([asked(store, "in-tx")], tx=connection)
    connection.close()
    assert await all_tasks(store) == []
    await bench.close()


async def test_an_enqueue_in_an_apsw_transaction_commits_with_it(
    store: Store, bench: SqliteBench, path: str
) -> None:
    connection = apsw.Connection(path)
    with connection:
        await store.insert([asked(store, "in-tx")], tx=connection)
    connection.close()
    assert await claim_ids(store) == ["in-tx"]
    await bench.close()


async def test_it_opens_again_after_closing_twice(bench: SqliteBench) -> None:
    store = await bench.open()
    await store.close()
    await store.close()
    await store.open()
    async with asyncio.timeout(10):
        await put(store, "a")
        assert [task.id for task in await all_tasks(store)] == ["a"]
    await bench.close()


async def test_a_folder_that_is_not_there_is_a_typed_error(
    clock: VirtualClock, tmp_path: Path
) -> None:
    store = SqliteBench(clock, str(tmp_path / "nowhere" / "x.db")).make()
    with pytest.raises(StoreUnavailable, match="cannot be opened"):
        await store.open()
    async with asyncio.timeout(10):
        with pytest.raises(StoreUnavailable, match="closed"):
            await store.reads.get(["a"])


async def test_a_file_that_is_not_a_database_is_a_typed_error(
    clock: VirtualClock, tmp_path: Path
) -> None:
    file = tmp_path / "x.db"
    file.write_text("this is no database, " * 100)
    with pytest.raises(StoreUnavailable, match="not a sound SQLite database"):
        await SqliteBench(clock, str(file)).make().open()
    assert file.read_text().startswith("this is no database")


async def test_time_never_goes_back(bench: SqliteBench) -> None:
    class Backwards(VirtualClock):
        def turn_back(self) -> None:
            self._time -= 1000.0
            self._start -= 1000.0

    clock = Backwards()
    bench.clock = clock
    store = bench.make()
    before = store.now()
    clock.turn_back()
    assert store.now() == before
    clock.set(clock.now() + 10.0)
    assert before < store.now() < before + 10.0, "and never stands still"


DRAIN = """
import asyncio, json, random, sys
from holdfast.clock import SystemClock
from holdfast.core.ids import Ids
from holdfast.store.sqlite.dialect import SqliteDialect
from holdfast.store.sqlite.driver import SqliteDriver
from holdfast.store.store import Store
from tests.conformance.tasks.helpers import claim, complete

async def main(path, node):
    store = Store(SqliteDriver(path, SystemClock()), SqliteDialect(), Ids(random.SystemRandom()))
    await store.open()
    done = []
    while tasks := await claim(store, 20, node=node):
        for task in tasks:
            await complete(store, task)
            done.append(task.id)
    await store.close()
    print(json.dumps(done))

asyncio.run(main(*sys.argv[1:]))
"""


async def test_two_processes_share_one_file(path: str) -> None:
    store = Store(SqliteDriver(path, SystemClock()), SqliteDialect(), Ids(random.Random(7)))
    await store.open()
    ids = await put_plain(store, 300)
    processes = [
        await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", DRAIN, path, f"process-{n}"),
            stdout=asyncio.subprocess.PIPE,
            cwd=Path(__file__).parents[3],
        )
        for n in range(2)
    ]
    outputs = [await process.communicate() for process in processes]
    done = [task_id for out, _ in outputs for task_id in json.loads(out)]
    assert sorted(done) == sorted(ids)
    assert {task.status for task in await all_tasks(store)} == {Status.COMPLETED}
    events = await read_all(store)
    assert len(events) == 900
    for task_id in ids[:20]:
        assert [e.kind for e in events if e.task_id == task_id] == [
            *("task.enqueued", "task.started", "task.completed")
        ]
    await check_counters(store)
    await store.close()


async def test_a_process_does_not_wake_itself(clock: VirtualClock, tmp_path: Path) -> None:
    """Its own commits change no version; those of others do, and are reported to listeners."""
    bench = SqliteBench(clock, str(tmp_path / "x.db"))
    mine, theirs = await bench.open(), await bench.open()
    assert mine.file is not None
    assert theirs.file is not None
    reports: list[str] = []
    mine.file.on_commit(lambda: reports.append("mine"))
    before = mine.file.version()
    await put(mine)
    assert mine.file.version() == before
    assert reports == ["mine"]
    await claim(mine, 5, queues=["empty"])
    await mine.reads.get(["unknown"])
    assert reports == ["mine"], "a commit without changes is not reported"
    await put(theirs)
    assert mine.file.version() != before
    await bench.close()


def modes(folder: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}


async def test_a_new_file_is_readable_by_its_owner_only(
    clock: VirtualClock, tmp_path: Path
) -> None:
    bench = SqliteBench(clock, str(tmp_path / "x.db"))
    await put(await bench.open())
    assert modes(tmp_path) == dict.fromkeys(("x.db", "x.db-wal", "x.db-shm"), 0o600)
    await bench.close()


async def test_a_file_that_was_made_to_be_shared_stays_shared(
    clock: VirtualClock, tmp_path: Path
) -> None:
    file = tmp_path / "x.db"
    file.touch()
    file.chmod(0o660)
    bench = SqliteBench(clock, str(file))
    await put(await bench.open())
    assert set(modes(tmp_path).values()) == {0o660}
    await bench.close()
