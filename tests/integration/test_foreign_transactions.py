"""An enqueue in a caller's transaction works only in the queue's own database; errors there are typed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import apsw
import asyncpg
import pytest

from holdfast import TaskQueue
from holdfast.errors import Conflict, IdempotencyConflict, InvalidInput
from holdfast.primitives.idempotency import Ledger
from holdfast.primitives.locks import Locks
from tests.acceptance.apps.jobs import make_queue
from tests.databases import Databases
from tests.looks import look_again


class Trio:
    """The store, another one, and a database that Holdfast has never seen."""

    def __init__(self, ours: str, other: str, empty: str) -> None:
        self.ours = ours
        self.other = other
        self.empty = empty


@pytest.fixture(params=["sqlite", "postgres"])
async def databases(
    request: pytest.FixtureRequest, tmp_path: Path, pg_databases: Databases
) -> AsyncIterator[Trio]:
    if request.param == "sqlite":
        files = [f"sqlite:///{tmp_path / name}.db" for name in ("ours", "other", "empty")]
        yield Trio(*files)
        return
    with (
        pg_databases.empty() as ours,
        pg_databases.empty() as other,
        pg_databases.empty() as empty,
    ):
        yield Trio(ours, other, empty)


@asynccontextmanager
async def transaction(url: str) -> AsyncIterator[Any]:
    """Rolled back at the end."""
    if url.startswith("sqlite"):
        connection = apsw.Connection(url.removeprefix("sqlite:///"))
        connection.set_busy_timeout(5_000)
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield connection
        finally:
            connection.execute("ROLLBACK")
            connection.close()
        return
    other = await asyncpg.connect(url)
    begun = other.transaction()
    await begun.start()
    try:
        yield other
        assert await other.fetchval("SELECT 1") == 1  # the caller's transaction is alive
    finally:
        await begun.rollback()
        await other.close()


@pytest.mark.parametrize("where", ["other", "empty"])
async def test_a_transaction_on_another_database_is_refused(databases: Trio, where: str) -> None:
    async with make_queue(databases.other, "work"):
        pass
    elsewhere = getattr(databases, where)
    async with make_queue(databases.ours, "work") as queue:
        async with transaction(elsewhere) as connection:
            with pytest.raises(InvalidInput, match=r"another database|not the file"):
                await queue.enqueue("work", {}, tx=connection)
        assert await queue.find_tasks() == []
    effects: list[object] = []

    async def effect(turn: object) -> None:
        effects.append(turn)

    async with Ledger.connect(databases.ours) as ledger, transaction(elsewhere) as connection:
        with pytest.raises(InvalidInput, match=r"another database|not the file"):
            await ledger.run("s", "o", "k", 1, effect, tx=connection)
    assert effects == []
    async with (
        Locks.connect(databases.ours) as locks,
        locks.hold("r") as lease,
        transaction(elsewhere) as connection,
    ):
        with pytest.raises(InvalidInput, match=r"another database|not the file"):
            await lease.guard(connection)


async def test_a_connection_is_asked_once(databases: Trio, monkeypatch: pytest.MonkeyPatch) -> None:
    from holdfast.store.postgres import connection as postgres

    asked: list[tuple[Any, str]] = []
    execute = postgres.execute

    async def noted(connection: Any, call: Any) -> Any:
        asked.append((connection, call.name))
        return await execute(connection, call)

    async with make_queue(databases.ours, "work") as queue:
        monkeypatch.setattr(postgres, "execute", noted)
        async with transaction(databases.ours) as connection:
            for _ in range(3):
                await queue.enqueue("work", {}, tx=connection)
            times = asked.count((connection, "identity"))
    assert times == (0 if databases.ours.startswith("sqlite") else 1)


async def test_another_schema_of_the_same_database_is_another_store(pg_dsn: str) -> None:
    async with make_queue(pg_dsn, "work") as queue:
        connection = await asyncpg.connect(pg_dsn)
        await connection.execute("CREATE SCHEMA other")
        await connection.execute("CREATE TABLE other.holdfast_feed_head (epoch text)")
        await connection.execute("SET search_path = other")
        async with connection.transaction():
            with pytest.raises(InvalidInput, match="another schema"):
                await queue.enqueue("work", {}, tx=connection)
        await connection.close()


# -- two transactions, one key ---------------------------------------------------------------------------


@pytest.fixture
async def queue(pg_dsn: str) -> AsyncIterator[TaskQueue]:
    async with make_queue(pg_dsn, "work") as queue:
        yield queue


async def test_the_second_of_two_open_transactions_gets_the_first_ones_task(
    queue: TaskQueue, pg_dsn: str
) -> None:
    one, two = await asyncpg.connect(pg_dsn), await asyncpg.connect(pg_dsn)
    first, second = one.transaction(), two.transaction()
    await first.start()
    await second.start()
    task = await queue.enqueue("work", {"n": 1}, idempotency_key="k", tx=one)
    same = asyncio.create_task(queue.enqueue("work", {"n": 1}, idempotency_key="k", tx=two))
    await waits_for_a_lock(pg_dsn)
    await first.commit()
    assert await same == task
    with pytest.raises(IdempotencyConflict):
        await queue.enqueue("work", {"n": 2}, idempotency_key="k", tx=two)
    assert await two.fetchval("SELECT 1") == 1
    await second.commit()
    await one.close()
    await two.close()


async def test_a_transaction_that_cannot_see_the_first_one_gets_a_conflict(
    queue: TaskQueue, pg_dsn: str
) -> None:
    one, two = await asyncpg.connect(pg_dsn), await asyncpg.connect(pg_dsn)
    second = two.transaction(isolation="repeatable_read")
    await second.start()
    await two.fetchval("SELECT count(*) FROM holdfast_task")
    async with one.transaction():
        await queue.enqueue("work", {"n": 1}, idempotency_key="k", tx=one)
    with pytest.raises(Conflict, match="try again"):
        await queue.enqueue("work", {"n": 1}, idempotency_key="k", tx=two)
    assert await two.fetchval("SELECT 1") == 1
    await second.rollback()
    failed = two.transaction()
    await failed.start()
    with pytest.raises(asyncpg.PostgresError):
        await two.execute("SELECT 1 / 0")
    with pytest.raises(InvalidInput, match="has already failed"):
        await queue.enqueue("work", {"n": 1}, tx=two)
    await failed.rollback()
    await one.close()
    await two.close()


async def waits_for_a_lock(dsn: str) -> None:
    watcher = await asyncpg.connect(dsn)
    async with asyncio.timeout(10):
        while not await watcher.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"):
            await look_again()
    await watcher.close()
