"""PostgreSQL while another session holds an old snapshot: nothing dead can be removed from the indexes.

Measured in index entries that statements read, as the server counts them: no clock is involved.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import pytest

from holdfast.clock import VirtualClock
from holdfast.core.command import Release
from holdfast.core.limit import LimitRule
from holdfast.store.postgres.dialect import PostgresDialect
from holdfast.store.postgres.driver import PostgresDriver
from holdfast.store.store import Store
from tests.backends import PostgresBench
from tests.conformance.tasks.helpers import (
    asked,
    claim,
    claim_ids,
    claim_one,
    claim_request,
    complete,
    put_plain,
    runner_says,
)

LOOK_SECONDS = 0.001


class Slow:
    """A monotonic clock that advances with every reading: scans seem to take time."""

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
async def old_reader(dsn: str, *, writes: bool = False) -> AsyncIterator[None]:
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        await connection.fetch("SELECT count(*) FROM holdfast_node")
        if writes:
            await connection.execute("CREATE TABLE theirs ()")
        yield
    finally:
        await connection.close()


async def entries_read(bench: PostgresBench, store: Store, index: str) -> int:
    """Entries read so far. Sessions report their figures when they end at the latest; caches of the
    process stay."""
    await store.close()
    await store.open()
    rows = await bench.sql(
        f"SELECT idx_tup_read FROM pg_stat_user_indexes WHERE indexrelname = '{index}'"
    )
    return int(rows[0][0])


async def test_claims_do_not_reread_dead_entries(bench: SlowBench, clock: VirtualClock) -> None:
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
    # A full scan each time would read ten times all 750 dead entries; now it reads them once at
    # most.
    assert read < 750 + 10 * 100


async def test_sweeps_for_expired_leases_do_not_reread_dead_entries(
    bench: SlowBench, clock: VirtualClock
) -> None:
    store = await bench.open()
    async with old_reader(bench.dsn):
        for _ in range(30):
            await put_plain(store, 25)
            for task in await claim(store, 25, lease_seconds=2.0):
                await complete(store, task)
        clock.set(clock.now() + 10)
        assert (await store.sweep()).expired == []
        before = await entries_read(bench, store, "holdfast_task_lease")
        for _ in range(10):
            assert (await store.sweep()).expired == []
            assert await store.runs.owned("node-a") == []
        read = await entries_read(bench, store, "holdfast_task_lease") - before
    assert read < 750 * 5


async def test_pruning_does_not_reread_dead_entries(bench: SlowBench, clock: VirtualClock) -> None:
    store = await bench.open()
    for _ in range(20):
        clock.set(clock.now() + 1)
        await put_plain(store, 25)
        for task in await claim(store, 25):
            await complete(store, task)
    now = clock.now()
    async with old_reader(bench.dsn):
        for _ in range(15):
            assert await store.prune(before=now, dead_before=now, feed_before=0.0, limit=25) == 25
        before = await entries_read(bench, store, "holdfast_task_finished")
        for _ in range(4):
            assert await store.prune(before=now, dead_before=now, feed_before=0.0, limit=25) == 25
        read = await entries_read(bench, store, "holdfast_task_finished") - before
    assert read < 375 + 4 * 100


async def test_a_task_below_a_floor_waits_for_the_next_full_scan(
    bench: SlowBench, clock: VirtualClock
) -> None:
    """An enqueue in a long transaction."""
    store = await bench.open()
    late = asked(store, "late")
    for _ in range(5):
        clock.set(clock.now() + 1)
        await put_plain(store, 10)
    assert len(await claim(store, 10)) == 10
    await (await bench.open()).insert([late])
    assert "late" not in await claim_ids(store, 5)
    clock.set(clock.now() + 1)
    assert "late" in await claim_ids(store, 5)


async def test_a_node_that_unparks_a_task_does_a_full_scan_at_once(
    bench: SlowBench, clock: VirtualClock
) -> None:
    """The unparked task returns to its old position."""
    store = await bench.open()
    rules = (("one at a time", LimitRule(max_running=1)),)
    await store.insert([asked(store, name, type="limited", rules=rules) for name in ("a", "b")])
    for _ in range(5):
        clock.set(clock.now() + 1)
        await put_plain(store, 10)
    first = await claim_one(store)
    assert (first.id, len(await claim(store, 10))) == ("a", 9)
    await complete(store, first)
    assert (await claim_ids(store, 5))[0] == "b"


async def test_a_lease_that_ends_is_noticed_above_the_floor(
    bench: SlowBench, clock: VirtualClock
) -> None:
    store = await bench.open()
    await put_plain(store, 2)
    for lease_seconds in (5.0, 20.0):
        await claim_one(store, lease_seconds=lease_seconds)
    assert (await store.sweep()).expired == []
    clock.set(clock.now() + 6)
    assert len((await store.sweep()).expired) == 1
    assert len(await store.runs.owned("node-a")) == 1
    clock.set(clock.now() + 15)
    assert len((await store.sweep()).expired) == 1


async def test_assigning_offsets_does_not_slow_down_during_an_endless_write(
    bench: SlowBench,
) -> None:
    store = await bench.open()
    async with old_reader(bench.dsn, writes=True):
        for _ in range(100):
            await put_plain(store, 1)
            await store.feed.head()
        before = await entries_read(bench, store, "holdfast_feed_unread")
        for _ in range(20):
            await put_plain(store, 1)
            await store.feed.head()
        read = await entries_read(bench, store, "holdfast_feed_unread") - before
    assert (await store.feed.head()).offset == 120
    # From the oldest open transaction on it would be over two thousand.
    assert read < 20 * 10


async def test_assigning_offsets_does_not_reread_old_versions_of_the_head(bench: SlowBench) -> None:
    store = await bench.open()
    async with old_reader(bench.dsn):
        for _ in range(50):
            await put_plain(store, 1)
            await store.feed.counters()
        before = await entries_read(bench, store, "holdfast_feed_head_last")
        for _ in range(20):
            await put_plain(store, 1)
            await store.feed.counters()
        read = await entries_read(bench, store, "holdfast_feed_head_last") - before
    assert 0 < read < 20 * 10


async def test_no_worker_idles_while_a_task_waits_below_a_floor(
    bench: SlowBench, clock: VirtualClock
) -> None:
    """Another node releases a task, which returns to its old position."""
    store, other = await bench.open(), await bench.open()
    await put_plain(store, 2)
    held = await claim(other, 2)
    clock.set(clock.now() + 5)
    await put_plain(store, 10)
    assert len(await claim(store, 5)) == 5
    await runner_says(other, held[0], Release("not here"))
    rest = await store.claim(claim_request(10))
    assert (len(rest.tasks), rest.look_again) == (5, True)
    again = await store.claim(claim_request(10))
    assert ([task.id for task in again.tasks], again.look_again) == ([held[0].id], False)
    assert await claim_ids(store) == []
    await runner_says(other, held[1], Release("not here"))
    assert await claim_ids(store) == [held[1].id], "idle: the whole line is looked at"


async def test_a_claim_that_may_have_missed_a_task_says_when_to_claim_again(
    bench: SlowBench, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where full scans are expensive, on a busy server, an idle node sleeps no longer than that."""
    monkeypatch.setattr("holdfast.store.fast.floors.CHEAP_SECONDS", 0.0)
    store, other = await bench.open(), await bench.open()
    await put_plain(store, 1)
    held = await claim_one(other)
    clock.set(clock.now() + 5)
    assert await claim_ids(store) == []
    await runner_says(other, held, Release("not here"))
    missed = await store.claim(claim_request(10))
    assert (missed.tasks, missed.look_again) == ([], False)
    assert 0.0 < missed.blind_seconds < 1.0
    clock.set(clock.now() + missed.blind_seconds)
    assert await claim_ids(store) == [held.id]
