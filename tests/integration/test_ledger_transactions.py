"""The entry in the same transaction as the effect, on both stores."""

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
from holdfast.errors import (
    IdempotencyConflict,
    InProgress,
    InvalidInput,
    LeaseLost,
)
from holdfast.primitives.idempotency import BlockingLedger, EntryLease, Ledger, State
from holdfast.store.script import Script, call
from tests.acceptance.apps.harness import eventually
from tests.backends import SHARED

PLACE = ("account:7", "charge", "key-1")


class Database:
    """The database of the ledger with a table and connections of the caller."""

    url: str

    async def setup(self) -> None:
        raise NotImplementedError

    async def connect(self) -> Any:
        raise NotImplementedError

    async def write(self, connection: Any, text: str) -> None:
        raise NotImplementedError

    async def count(self) -> int:
        raise NotImplementedError

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Any]:
        raise NotImplementedError
        yield


class File(Database):
    def __init__(self, path: Path) -> None:
        self.url = f"sqlite:///{path}"
        self.path = str(path)

    async def setup(self) -> None:
        connection = apsw.Connection(self.path)
        connection.execute("CREATE TABLE charges (note text)")
        connection.close()

    async def connect(self) -> apsw.Connection:
        connection = apsw.Connection(self.path)
        connection.set_busy_timeout(5_000)
        return connection

    async def write(self, connection: apsw.Connection, text: str) -> None:
        connection.execute("INSERT INTO charges VALUES (?)", (text,))

    async def count(self) -> int:
        connection = await self.connect()
        count = int(connection.execute("SELECT count(*) FROM charges").fetchall()[0][0])  # type: ignore[arg-type]
        connection.close()
        return count

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[apsw.Connection]:
        connection = await self.connect()
        try:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")
        finally:
            connection.close()


class Server(Database):
    def __init__(self, dsn: str) -> None:
        self.url = dsn

    async def setup(self) -> None:
        connection = await self.connect()
        await connection.execute("CREATE TABLE charges (note text)")
        await connection.close()

    async def connect(self) -> Any:
        return await asyncpg.connect(self.url)

    async def write(self, connection: Any, text: str) -> None:
        await connection.execute("INSERT INTO charges VALUES ($1)", text)

    async def count(self) -> int:
        connection = await self.connect()
        count: int = await connection.fetchval("SELECT count(*) FROM charges")
        await connection.close()
        return count

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Any]:
        connection = await self.connect()
        try:
            async with connection.transaction():
                yield connection
        finally:
            await connection.close()


@pytest.fixture(params=SHARED)
def empty(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    if request.param == "sqlite-file":
        return File(tmp_path / "own.db")
    return Server(request.getfixturevalue("pg_dsn"))


@pytest.fixture
async def database(empty: Database) -> Database:
    await empty.setup()
    return empty


@pytest.fixture
async def ledger(database: Database) -> AsyncIterator[Ledger]:
    async with Ledger.connect(database.url) as ledger:
        yield ledger


async def charge(ledger: Ledger, database: Database, tx: Any, amount: int = 5) -> Any:
    async def effect(lease: EntryLease) -> str:
        await database.write(tx, lease.id)
        return f"charged {amount}"

    return await ledger.run(*PLACE, {"amount": amount}, effect, tx=tx)


async def test_entry_and_effect_commit_together(ledger: Ledger, database: Database) -> None:
    async with database.transaction() as tx:
        assert await charge(ledger, database, tx) == "charged 5"
        assert await charge(ledger, database, tx) == "charged 5", "a repeat within it"
    assert await database.count() == 1
    async with database.transaction() as tx:
        assert await charge(ledger, database, tx) == "charged 5"
        with pytest.raises(IdempotencyConflict):
            await charge(ledger, database, tx, 6)
    assert await database.count() == 1
    entry = await ledger.get(*PLACE)
    assert entry is not None
    assert entry.state is State.DONE


async def test_a_rollback_undoes_entry_and_effect(ledger: Ledger, database: Database) -> None:
    async def doomed() -> None:
        async with database.transaction() as tx:
            await charge(ledger, database, tx)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await doomed()
    assert await database.count() == 0
    assert await ledger.get(*PLACE) is None
    async with database.transaction() as tx:
        assert await charge(ledger, database, tx) == "charged 5"
    assert await database.count() == 1


async def test_an_effect_that_fails_leaves_nothing(ledger: Ledger, database: Database) -> None:
    async def effect(lease: EntryLease) -> None:
        await database.write(tx, "half")
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        async with database.transaction() as tx:
            await ledger.run(*PLACE, 1, effect, tx=tx)
    assert (await database.count(), await ledger.get(*PLACE)) == (0, None)


async def test_a_commit_after_an_error_leaves_the_entry_free(
    ledger: Ledger, database: Database
) -> None:
    async def effect(lease: EntryLease) -> None:
        raise ValueError("swallowed")

    async with database.transaction() as tx:
        with pytest.raises(ValueError, match="swallowed"):
            await ledger.run(*PLACE, 1, effect, tx=tx)
    lease = await ledger.begin(*PLACE, 1)
    assert isinstance(lease, EntryLease)
    assert lease.attempt == 2


async def test_begin_and_finish_run_in_the_callers_transaction(
    ledger: Ledger, database: Database
) -> None:
    async with database.transaction() as tx:
        lease = await ledger.begin(*PLACE, 1, tx=tx)
        assert isinstance(lease, EntryLease)
        await database.write(tx, "by hand")
        await ledger.finish(lease, None, tx=tx)
    assert await ledger.run(*PLACE, 1, never) is None


async def never(lease: EntryLease) -> None:
    raise AssertionError("it ran before")


async def test_a_call_in_progress_elsewhere_raises_in_progress(
    ledger: Ledger, database: Database
) -> None:
    await ledger.begin(*PLACE, {"amount": 5})
    with pytest.raises(InProgress):
        async with database.transaction() as tx:
            await charge(ledger, database, tx)
    assert await database.count() == 0


async def test_two_concurrent_transactions_have_one_effect(
    ledger: Ledger, database: Database
) -> None:
    """PostgreSQL: the second waits for the first and gets its answer; after a rollback it runs the effect."""
    if isinstance(database, File):
        return await race_on_file(ledger, database)
    for ends in ("commit", "rollback"):
        first = await database.connect()
        transaction = first.transaction()
        await transaction.start()
        await charge(ledger, database, first)

        async def second() -> Any:
            async with database.transaction() as tx:
                return await charge(ledger, database, tx)

        waiting = asyncio.create_task(second())
        watcher = await database.connect()
        await blocked(watcher)
        await (transaction.rollback() if ends == "rollback" else transaction.commit())
        assert await waiting == "charged 5"
        assert await database.count() == 1
        await watcher.execute("DELETE FROM charges; DELETE FROM holdfast_ledger")
        await first.close()
        await watcher.close()
    return None


async def blocked(watcher: Any) -> None:
    async with asyncio.timeout(10):
        while not await watcher.fetchval(
            "SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'transactionid'"
        ):
            continue


async def race_on_file(ledger: Ledger, database: File) -> None:
    """SQLite: one writer at a time, so the second begins when the first has ended."""
    async with database.transaction() as first:
        await charge(ledger, database, first)
        second = apsw.Connection(database.path)
        second.set_busy_timeout(0)
        with pytest.raises(apsw.BusyError):
            second.execute("BEGIN IMMEDIATE")
    second.execute("BEGIN IMMEDIATE")
    assert await charge(ledger, database, second) == "charged 5"
    second.execute("COMMIT")
    second.close()
    assert await database.count() == 1


async def test_an_unsuitable_connection_is_refused(ledger: Ledger, database: Database) -> None:
    connection = await database.connect()
    with pytest.raises(InvalidInput, match="no open transaction"):
        await charge(ledger, database, connection)
    with pytest.raises(InvalidInput, match="cannot carry"):
        await charge(ledger, database, object())
    with pytest.raises(InvalidInput, match="cannot wait"):
        await ledger.run(*PLACE, 1, never, tx=connection, wait=1.0)
    closing = connection.close()
    if closing is not None:
        await closing
    assert (await database.count(), await ledger.get(*PLACE)) == (0, None)


async def test_a_script_and_its_entry_are_one_transaction(ledger: Ledger) -> None:
    """On the ledger's own store: the effect is made of named statements."""
    runs = 0

    def pause(lease: EntryLease) -> Script[object]:
        nonlocal runs
        runs += 1
        yield call("pause_queue", name="q", now=1.0, actor="ann", reason=lease.id)
        if runs == 1:
            raise ZeroDivisionError
        rows = yield call("queues")
        return [row[3] for row in rows]

    with pytest.raises(ZeroDivisionError):
        await ledger.run_script(*PLACE, 1, pause)
    assert await ledger.get(*PLACE) is None
    before = runs
    first = await ledger.run_script(*PLACE, 1, pause)
    assert first == await ledger.run_script(*PLACE, 1, pause)
    assert runs == before + 1
    with pytest.raises(IdempotencyConflict):
        await ledger.run_script(*PLACE, 2, pause)
    lease = await ledger.begin("s", "o", "other", 1)
    assert isinstance(lease, EntryLease)
    with pytest.raises(InProgress):
        await ledger.run_script("s", "o", "other", 1, pause)


# -- steps of tasks ----------------------------------------------------------------------------------------


@pytest.fixture
def queue(database: Database) -> TaskQueue:
    return TaskQueue(database.url, lease_seconds=5.0, base_retry_delay=0.01)


async def test_a_step_commits_with_what_it_wrote(database: Database, queue: TaskQueue) -> None:
    leases: list[EntryLease] = []

    async def pay(task: Any, ctx: Any) -> Any:
        async with database.transaction() as tx:

            async def effect(lease: EntryLease) -> str:
                leases.append(lease)
                await database.write(tx, lease.id)
                return "charged"

            answer = await ctx.once("charge", effect, tx=tx)
            if len(leases) == 1:
                raise ConnectionError("before the commit")
        if ctx.attempt == 2:
            raise ConnectionError("after the commit")
        return answer

    queue.register_handler("pay", pay, max_attempts=5)
    async with queue:
        handle = await queue.enqueue("pay")
        assert await handle.result(20) == "charged"
        assert (await handle.get()).attempts == 3
    assert await database.count() == 1
    assert [lease.attempt for lease in leases] == [1, 1], (
        "the first was rolled back as if never there"
    )


async def test_a_step_is_not_committed_by_a_runner_that_lost_its_task(
    database: Database, queue: TaskQueue
) -> None:
    """The claim is checked in the caller's transaction, right before its commit."""
    lost: list[BaseException] = []

    async def pay(task: Any, ctx: Any) -> None:
        async with database.transaction() as tx:

            async def effect(lease: EntryLease) -> None:
                await database.write(tx, lease.id)
                if isinstance(database, File):
                    tx.execute("UPDATE holdfast_task SET fence = fence + 1")
                else:
                    other = await database.connect()
                    await other.execute("UPDATE holdfast_task SET fence = fence + 1")
                    await other.close()

            try:
                await ctx.once("charge", effect, tx=tx)
            except LeaseLost as error:
                lost.append(error)
                raise

    queue.register_handler("pay", pay)
    async with queue:
        await queue.enqueue("pay")
        await eventually(lambda: bool(lost))
    assert await database.count() == 0


# -- callers that block ------------------------------------------------------------------------------------


def test_a_blocking_call_runs_in_the_callers_transaction_on_sqlite(tmp_path: Path) -> None:
    path = tmp_path / "own.db"
    with BlockingLedger.connect(f"sqlite:///{path}") as ledger:
        ledger.prune()
        connection = apsw.Connection(str(path))
        connection.execute("CREATE TABLE charges (note text)")

        def effect(lease: EntryLease) -> str:
            connection.execute("INSERT INTO charges VALUES (?)", (lease.id,))
            return "charged"

        for _ in range(2):
            with connection:
                assert ledger.run(*PLACE, 1, effect, tx=connection) == "charged"
        assert connection.execute("SELECT count(*) FROM charges").fetchall() == [(1,)]
        connection.close()
