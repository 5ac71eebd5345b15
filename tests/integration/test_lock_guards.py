"""Guards on PostgreSQL: which operations wait for the guarded transaction."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

from holdfast.errors import Conflict, LeaseLost
from holdfast.primitives.locks import Locks

LONG = 600.0
EXPIRE = "UPDATE holdfast_lease SET expires_at = 0 WHERE resource = 'r'"
BLOCKED = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"


@asynccontextmanager
async def connected(dsn: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(dsn)
    try:
        yield connection
    finally:
        await connection.close()


async def blocked(dsn: str, waiting: asyncio.Task[Any]) -> None:
    """Waits until the task is blocked by a lock of another transaction."""
    async with connected(dsn) as watcher:
        while not await watcher.fetchval(BLOCKED):
            assert not waiting.done()


async def test_a_guard_does_not_block_the_renewals_of_its_holder(pg_dsn: str) -> None:
    async with (
        Locks.connect(pg_dsn) as locks,
        connected(pg_dsn) as mine,
        connected(pg_dsn) as other,
    ):
        lease = await locks.acquire("r", ttl=LONG)
        async with mine.transaction():
            await lease.guard(mine)
            await lease.extend(2 * LONG)
            assert await other.fetchval("SELECT ttl_seconds FROM holdfast_lease") == 2 * LONG
            await lease.guard(mine)
        lease.check()


@pytest.mark.parametrize("isolation", ["read_committed", "repeatable_read"])
async def test_a_takeover_waits_for_the_guarded_transaction_to_end(
    pg_dsn: str, isolation: Any
) -> None:
    """Also if the guard follows a renewal that its snapshot does not show."""
    async with (
        Locks.connect(pg_dsn) as here,
        Locks.connect(pg_dsn) as there,
        connected(pg_dsn) as mine,
        connected(pg_dsn) as other,
    ):
        lease = await here.acquire("r", ttl=LONG)
        async with mine.transaction(isolation=isolation):
            await mine.execute("SELECT 1 FROM holdfast_lease")
            await lease.extend(2 * LONG)
            await lease.guard(mine)
            await other.execute(EXPIRE)
            taking = asyncio.create_task(there.acquire("r", ttl=LONG, wait=LONG))
            await blocked(pg_dsn, taking)
        assert (await taking).fence == lease.fence + 1
        with pytest.raises(LeaseLost):
            async with mine.transaction():
                await lease.guard(mine)


async def test_a_guard_waits_for_a_revocation_that_has_begun(pg_dsn: str) -> None:
    async with (
        Locks.connect(pg_dsn) as locks,
        connected(pg_dsn) as mine,
        connected(pg_dsn) as other,
    ):
        lease = await locks.acquire("r", ttl=LONG)
        revoking = other.transaction()
        await revoking.start()
        await other.execute("UPDATE holdfast_lease SET clock_at = clock_at + 1")
        await other.execute("UPDATE holdfast_lease SET fence = fence + 1, claim_id = NULL")
        async with mine.transaction():
            guarding = asyncio.create_task(lease.guard(mine))
            await blocked(pg_dsn, guarding)
            await revoking.commit()
            with pytest.raises(LeaseLost):
                await guarding


async def test_an_old_snapshot_does_not_pass_a_guard(pg_dsn: str) -> None:
    async with Locks.connect(pg_dsn) as locks, connected(pg_dsn) as mine:
        lease = await locks.acquire("r", ttl=LONG)
        transaction = mine.transaction(isolation="repeatable_read")
        await transaction.start()
        await mine.execute("SELECT 1 FROM holdfast_lease")
        await lease.extend(2 * LONG)
        await locks.revoke("r", by="ann")
        with pytest.raises(Conflict):
            await lease.guard(mine)
        await transaction.rollback()
