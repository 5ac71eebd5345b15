"""PostgreSQL while somebody's old snapshot is held: nothing dead can be removed from the indexes.

Measured in index entries that statements read, as the server counts them: no clock is involved.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import pytest

from holdfast.clock import VirtualClock
from holdfast.store.postgres.dialect import PostgresDialect
from holdfast.store.postgres.driver import PostgresDriver
from holdfast.store.store import Store
from tests.conformance.conftest import PostgresBench
from tests.conformance.helpers import claim, complete, put_plain

LOOK_SECONDS = 0.001


class Slow:
    """A monotonic clock that goes on with every reading: looks seem to take a while."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self._readings = 0

    def __call__(self) -> float:
        self._readings += 1
        return self._clock.monotonic() + self._readings * LOOK_SECONDS


class SlowBench(PostgresBench):
    def make(self) -> Store:
        driver = PostgresDriver(self.dsn, self.clock, server_time=False)
        return Store(driver, PostgresDialect(Slow(self.clock)), self._ids())


@pytest.fixture
async def bench(clock: VirtualClock, pg_dsn: str) -> AsyncIterator[SlowBench]:
    bench = SlowBench(clock, pg_dsn)
    yield bench
    await bench.close()


@asynccontextmanager
async def old_reader(dsn: str) -> AsyncIterator[None]:
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        await connection.fetch("SELECT count(*) FROM holdfast_node")
        yield
    finally:
        await connection.close()


async def entries_read(bench: PostgresBench, store: Store, index: str) -> int:
    """So far. Sessions tell their figures when they end at the latest; what a process knows stays."""
    await store.close()
    await store.open()
    rows = await bench.sql(
        f"SELECT idx_tup_read FROM pg_stat_user_indexes WHERE indexrelname = '{index}'"
    )
    return int(rows[0][0])


async def test_claims_do_not_read_the_dead_again_and_again(
    bench: SlowBench, clock: VirtualClock
) -> None:
    store = await bench.open()
    async with old_reader(bench.dsn):
        for _ in range(40):
            clock.set(clock.now() + 1)
            await put_plain(store, 25)
        for _ in range(30):
            for task in await claim(store, 25):
                await complete(store, task)
        before = await entries_read(bench, store, "holdfast_task_ready")
        for _ in range(10):
            assert len(await claim(store, 25)) == 25
        read = await entries_read(bench, store, "holdfast_task_ready") - before
    # From the front it would be ten times all 750 that are gone; now it is that once at most.
    assert read < 750 + 10 * 100
