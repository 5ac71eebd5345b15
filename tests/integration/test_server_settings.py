"""Settings of the database or the role do not change the promises of Holdfast."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from holdfast.clock import SystemClock
from holdfast.errors import StoreUnavailable
from holdfast.queue.check import Level
from holdfast.queue.checks import durability
from holdfast.store.backends import store_for
from holdfast.store.postgres import connection as postgres
from proof.lab.servers import Postgres
from tests.acceptance.apps.jobs import make_queue


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
async def test_the_default_isolation_is_not_taken_over(pg_empty_dsn: str, isolation: str) -> None:
    await set_for_all(pg_empty_dsn, "default_transaction_isolation", isolation)
    stores = [store_for(pg_empty_dsn, SystemClock())() for _ in range(3)]
    await asyncio.gather(*(store.open() for store in stores))
    for store in stores:
        await store.close()
    async with make_queue(pg_empty_dsn, "work", "keyed") as queue:
        tasks = await asyncio.gather(
            *(queue.enqueue("keyed", {"value": n}, key="k") for n in range(30))
        )
        assert [await task.result(30) for task in tasks] == list(range(30))
        assert (await queue.get_stats()).restarts == 0


@pytest.mark.parametrize("name", ["statement_timeout", "idle_in_transaction_session_timeout"])
async def test_a_short_time_limit_of_the_database_is_not_taken_over(
    pg_empty_dsn: str, name: str
) -> None:
    """The limit is meant for the statements of an application; a migration takes longer, and so does the
    wait for a task that another transaction holds."""
    await set_for_all(pg_empty_dsn, name, "1ms")
    async with make_queue(pg_empty_dsn, "work") as queue:
        tasks = [await queue.enqueue("work", {"value": n}) for n in range(10)]
        assert [await task.result(30) for task in tasks] == list(range(10))
        assert (await queue.get_stats()).restarts == 0


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [("off", "on"), ("local", "on"), ("on", "on"), ("remote_apply", "remote_apply")],
)
async def test_a_commit_is_synced_whatever_the_database_default(
    pg_dsn: str, theirs: str, ours: str
) -> None:
    await set_for_all(pg_dsn, "synchronous_commit", theirs)
    connection = await postgres.connect(pg_dsn)
    assert await connection.fetchval("SHOW synchronous_commit") == ours
    assert await connection.fetchval("SHOW transaction_isolation") == "read committed"
    await connection.close()


async def test_times_in_json_are_whole_whatever_the_database_default(pg_dsn: str) -> None:
    """A claim answers with some rows as JSON: their times are those of the row to the last digit."""
    await set_for_all(pg_dsn, "extra_float_digits", "-3")
    connection = await postgres.connect(pg_dsn)
    text = "SELECT json_build_array(1800000000.1234567::float8)::text"
    assert await connection.fetchval(text) == "[1800000000.1234567]"
    await connection.close()


async def test_a_session_that_the_server_breaks_off_at_its_start_is_an_outage(
    pg_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by an operator who cancels all statements: a typed error, which loops wait out."""
    monkeypatch.setitem(postgres.SETTINGS, "statement_timeout", "10")
    monkeypatch.setattr(postgres, "SYNCED", "SELECT pg_sleep(60)")
    with pytest.raises(StoreUnavailable, match="canceling statement"):
        await postgres.connect(pg_dsn)


async def test_doctor_says_when_a_power_loss_would_cost_writes(
    pg_dsn: str, tmp_path: object
) -> None:
    async with make_queue(pg_dsn, "work") as queue:
        found = await durability(queue, 0.0)
        assert found.level is Level.WARN
        assert "fsync, full_page_writes is off" in found.text
    async with make_queue(f"sqlite:///{tmp_path}/queue.db", "work") as queue:
        assert (await durability(queue, 0.0)).level is Level.OK
    with Postgres(fsync="on", full_page_writes="on") as server:
        async with make_queue(server.dsn(), "work") as queue:
            assert (await durability(queue, 0.0)).level is Level.OK


async def set_for_all(dsn: str, name: str, value: str) -> None:
    connection = await asyncpg.connect(dsn)
    database = dsn.rpartition("/")[2]
    await connection.execute(f"ALTER DATABASE {database} SET {name} = '{value}'")
    await connection.close()
