"""What the databases make of the statements: plans with the named index, and which of them write."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any

import pytest

from holdfast.clock import VirtualClock
from holdfast.store.postgres import connection as postgres
from holdfast.store.sqlite import connection as sqlite
from holdfast.store.sqlite.driver import SqliteDriver
from tests.backends import PostgresBench, SqliteBench
from tests.conformance.tasks.helpers import after, asked, claim, complete, put_plain
from tests.conformance.tasks.statement_calls import POSTGRES_CALLS, SQLITE_CALLS
from tests.conformance.tasks.test_statements import ORDERS


@pytest.fixture
async def pg(clock: VirtualClock, pg_dsn: str) -> AsyncIterator[postgres.Connection]:
    bench = PostgresBench(clock, pg_dsn)
    store = await bench.open()
    ids = await put_plain(store, 50)
    await store.insert([asked(store, depends_on=after(parent)) for parent in ids])
    for task in await claim(store, 30):
        await complete(store, task)
    await bench.close()
    connection = await postgres.connect(pg_dsn)
    yield connection
    await connection.close()


async def test_postgres_plans_use_the_index_that_is_named(pg: postgres.Connection) -> None:
    """Plans statements with the settings of the driver and generic plans, regardless of statistics."""
    for analysed in (False, True):
        if analysed:
            await pg.execute("ANALYZE")
        for name, (call, index) in POSTGRES_CALLS.items():
            prepared = postgres.statements()[name]
            rows = await explained(pg, prepared.text, postgres.bind(prepared, call))
            plan = "\n".join(rows)
            assert all(each in plan for each in index.split(" & ")), f"{name}: {plan}"
            assert "Seq Scan on holdfast_task" not in plan, f"{name}: {plan}"
            assert name != "complete_alike" or "hashed SubPlan" in plan, f"{name}: {plan}"
            assert "Seq Scan on holdfast_feed " not in plan, f"{name}: {plan}"
            assert "Seq Scan on holdfast_edge " not in plan, f"{name}: {plan}"


CHANGES = re.compile(r"(?:Insert|Update|Delete|Merge) on ")


HARMLESS = {
    # They set an option, take a lock, send a hint, read a clock, or query the server. They change no row.
    "clock_timestamp",
    *("set_config", "pg_notify", "pg_advisory_xact_lock", "pg_advisory_xact_lock_shared"),
    "pg_try_advisory_xact_lock_shared",
    *("pg_control_system", "pg_current_wal_lsn", "pg_is_in_recovery"),
}


async def test_statements_marked_as_reads_change_nothing(pg: postgres.Connection) -> None:
    """A transaction that only reads stores no proof of its commit."""
    volatile = {
        row[0] for row in await pg.fetch("SELECT proname FROM pg_proc WHERE provolatile = 'v'")
    }
    prepared = postgres.statements()
    assert prepared[f"{ORDERS}:write_orders"].writes
    for name, statement in prepared.items():
        plan = "\n".join(await explained(pg, statement.text, (None,) * len(statement.names)))
        called = set(re.findall(r"\b(\w+)\(", statement.text)) & volatile - HARMLESS
        changes = CHANGES.search(plan) is not None or bool(called)
        assert statement.writes == changes, name
    assert prepared["number_records"].writes, "it calls a function that writes"
    assert not prepared["lock_tasks"].writes, "a lock is no change"


async def explained(pg: postgres.Connection, text: str, values: tuple[Any, ...]) -> list[str]:
    transaction = pg.transaction()
    await transaction.start()
    try:
        return [row[0] for row in await pg.fetch(f"EXPLAIN {text}", *values)]
    finally:
        await transaction.rollback()


async def test_sqlite_plans_use_the_index_that_is_named(clock: VirtualClock) -> None:
    bench = SqliteBench(clock, "")
    store = await bench.open()
    await put_plain(store, 50)
    driver = store._driver
    assert isinstance(driver, SqliteDriver)
    assert driver._writer is not None
    for name, (call, index) in SQLITE_CALLS.items():
        statement = sqlite.statements()[name]
        rows = driver._writer.execute(
            f"EXPLAIN QUERY PLAN {statement.text}", sqlite.bind(statement, call)
        ).fetchall()
        plan = "\n".join(str(row[3]) for row in rows)
        assert all(each in plan for each in index.split(" & ")), f"{name}: {plan}"
        assert not re.search(r"SCAN (holdfast_task|t|holdfast_feed|f)\b(?! USING)", plan), plan
    await bench.close()
