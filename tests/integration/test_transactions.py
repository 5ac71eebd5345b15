"""An enqueue within the caller's own transaction: it exists with the commit, and not after a rollback."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import apsw
import asyncpg
import pytest

from holdfast import TaskQueue
from holdfast.errors import InvalidInput
from tests.acceptance.apps.harness import Worker, whole_feed
from tests.acceptance.apps.jobs import make_queue


@pytest.fixture
async def known(pg_dsn: str) -> str:
    """A database whose types are known."""
    async with make_queue(pg_dsn, "work", "keyed"):
        return pg_dsn


@pytest.mark.usefixtures("no_polls")
async def test_postgres_commit_and_rollback(known: str) -> None:
    connection = await asyncpg.connect(known)
    await connection.execute("CREATE TABLE orders (id text)")
    producer = TaskQueue(known)
    async with make_queue(known, "work", "keyed") as queue:
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute("INSERT INTO orders VALUES ('gone')")
        gone = await producer.enqueue("work", {"value": 1}, tx=connection)
        await transaction.rollback()
        assert await queue.get_task(gone) is None

        async with connection.transaction():
            await connection.execute("INSERT INTO orders VALUES ('there')")
            task = await producer.enqueue("work", {"value": 2}, tx=connection)
            many = await producer.enqueue_many(
                [{"type": "keyed", "key": "k", "payload": {"value": n}} for n in range(3)],
                tx=connection,
            )
            assert await queue.get_task(task) is None  # not visible before the commit
        assert await task.result(20) == 2
        assert [await each.result(5) for each in many] == [0, 1, 2]
        events = await whole_feed(queue)
        assert gone not in {event.task_id for event in events}
        assert await connection.fetchval("SELECT count(*) FROM orders") == 1
        stats = await queue.get_stats()
        assert (stats.completed, stats.pending) == (4, 0)
    await producer.stop()
    await connection.close()


async def test_postgres_wakes_a_worker_in_another_process(known: str) -> None:
    connection = await asyncpg.connect(known)
    producer = TaskQueue(known)
    async with Worker(known, "work", poll_seconds=3_600.0) as worker:
        for n in range(3):
            async with connection.transaction():
                task = await producer.enqueue("work", {"value": n}, tx=connection)
            await task.wait(20)
        await worker.stop()
    await producer.stop()
    await connection.close()


async def test_postgres_needs_an_open_transaction(known: str) -> None:
    connection = await asyncpg.connect(known)
    producer = TaskQueue(known)
    with pytest.raises(InvalidInput, match="no open transaction"):
        await producer.enqueue("work", {}, tx=connection)
    with pytest.raises(InvalidInput, match="cannot carry the enqueue"):
        await producer.enqueue("work", {}, tx=object())
    assert await producer.find_tasks() == []
    await producer.stop()
    await connection.close()


async def test_postgres_transactions_that_race_keep_the_feed_whole(known: str) -> None:
    """Long transactions that commit in another order than they began: no event is skipped."""
    producer = TaskQueue(known)
    reader = TaskQueue(known)
    connections = [await asyncpg.connect(known) for _ in range(4)]
    enqueued: list[str] = []
    seen: list[str] = []

    async def read() -> None:
        async for event in reader.events():
            if event.task_id:  # Nodes register in the same feed.
                seen.append(event.task_id)
            if len(seen) == 4:
                return

    reading = asyncio.create_task(read())
    open_ = [connection.transaction() for connection in connections]
    for transaction, connection in zip(open_, connections, strict=True):
        await transaction.start()
        enqueued.append(await producer.enqueue("work", {}, tx=connection))
    for transaction in reversed(open_):
        await transaction.commit()
    async with asyncio.timeout(10):
        await reading
    assert sorted(seen) == sorted(enqueued)
    for connection in connections:
        await connection.close()
    await producer.stop()
    await reader.stop()


@pytest.mark.usefixtures("no_polls")
async def test_sqlite_commit_and_rollback(tmp_path: Path) -> None:
    path = tmp_path / "queue.db"
    async with make_queue(f"sqlite:///{path}", "work", "keyed") as queue:
        connection = apsw.Connection(str(path))
        connection.set_busy_timeout(5_000)
        connection.execute("CREATE TABLE orders (id text)")

        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO orders VALUES ('gone')")
        gone = await queue.enqueue("work", {"value": 1}, tx=connection)
        connection.execute("ROLLBACK")
        assert await queue.get_task(gone) is None

        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO orders VALUES ('there')")
        task = await queue.enqueue("work", {"value": 2}, tx=connection)
        many = await queue.enqueue_many(
            [{"type": "keyed", "key": "k", "payload": {"value": n}} for n in range(3)],
            tx=connection,
        )
        assert await queue.get_task(task) is None
        connection.execute("COMMIT")
        assert await task.result(20) == 2  # the file's version is watched
        assert [await each.result(5) for each in many] == [0, 1, 2]
        connection.close()
        events = [event.task_id for event in await whole_feed(queue)]
        assert gone not in events
        assert (await queue.get_stats()).completed == 4


async def test_an_enqueue_in_a_transaction_does_not_wait_for_that_transaction(
    tmp_path: Path,
) -> None:
    """The only writer is the caller: lookups of the enqueue must not need to write."""
    path = tmp_path / "queue.db"
    async with make_queue(f"sqlite:///{path}", "work"):
        pass
    producer = TaskQueue(f"sqlite:///{path}")
    await producer.open()  # nothing is cached yet, neither types nor figures
    connection = apsw.Connection(str(path))
    with connection:
        connection.execute("CREATE TABLE orders (id text)")
        async with asyncio.timeout(5):
            task = await producer.enqueue("work", {}, tx=connection)
    assert (await task.get()).id == task
    connection.close()
    await producer.stop()


async def test_an_enqueue_on_a_connection_of_the_standard_library_is_refused(
    tmp_path: Path,
) -> None:
    """Two copies of SQLite in one process do not see each other's locks: the file would be destroyed."""
    async with make_queue(f"sqlite:///{tmp_path}/queue.db", "work") as queue:
        connection = sqlite3.connect(":memory:")
        with pytest.raises(InvalidInput, match=r"open the file with apsw\.Connection"):
            await queue.enqueue("work", {}, tx=connection)
        connection.close()
        assert await queue.find_tasks() == []
