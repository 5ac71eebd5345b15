"""A statement without a timer that takes too long: its caller hears so, and it changes nothing later."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from holdfast import TaskQueue
from holdfast.errors import StoreUnavailable
from holdfast.store.postgres import watch
from holdfast.store.postgres.driver import PostgresDriver
from tests.looks import look_again

SLOW = """
CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN PERFORM pg_sleep(600); RETURN NEW; END $$;
CREATE TRIGGER slow BEFORE INSERT ON holdfast_task FOR EACH ROW EXECUTE FUNCTION slow()
"""
BUSY = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND wait_event = 'PgSleep'
"""


async def test_a_statement_that_took_too_long_ends_on_the_server_too(
    pg_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "SILENT_SECONDS", 0.05)
    queue = TaskQueue(pg_dsn)
    queue.task(name="note")(_nothing)
    other = await asyncpg.connect(pg_dsn)
    async with queue.producer():
        for _ in range(2):
            await queue.enqueue("note")
        driver = (await queue.open()).store._driver
        assert isinstance(driver, PostgresDriver)
        pool = driver._pools.here()
        assert pool is not None
        pool._watch._limit_seconds = 0.2
        await other.execute(SLOW)
        with pytest.raises(StoreUnavailable):
            await queue.enqueue("note")
        async with asyncio.timeout(30):
            while await other.fetchval(BUSY):
                await look_again()
        await other.execute("DROP TRIGGER slow ON holdfast_task")
        pool._watch._limit_seconds = 20.0
        await queue.enqueue("note")
        assert await other.fetchval("SELECT count(*) FROM holdfast_task") == 3
    await other.close()


async def _nothing() -> None:
    pass
