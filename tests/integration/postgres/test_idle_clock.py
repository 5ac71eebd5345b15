"""A process that was idle: its own clock and that of the server have drifted apart."""

from __future__ import annotations

from collections.abc import AsyncIterator

import asyncpg
import pytest

from holdfast.bus.local import LocalBus
from holdfast.clock import VirtualClock
from holdfast.errors import InProgress, WaitTimeout
from holdfast.primitives.idempotency import Ledger
from holdfast.primitives.locks import Locks
from holdfast.primitives.locks.backend import StoreBackend
from holdfast.store.backends import secret_ids
from holdfast.store.postgres.dialect import PostgresDialect
from holdfast.store.postgres.driver import PostgresDriver
from holdfast.store.store import Store

HOUR = 3_600.0
PLACE = ("account:7", "charge", "key-1")


@pytest.fixture
async def store(clock: VirtualClock, pg_dsn: str) -> AsyncIterator[Store]:
    """The store of a process that takes its time from the server, with a clock that the test moves."""
    dialect = PostgresDialect(clock.monotonic)
    store = Store(PostgresDriver(pg_dsn, clock), dialect, secret_ids())
    await store.open()
    yield store
    await store.close()


async def test_a_process_with_a_fast_clock_takes_no_lock_that_is_held(
    clock: VirtualClock, store: Store, pg_dsn: str
) -> None:
    backend = StoreBackend(store)
    async with (
        Locks.connect(pg_dsn) as holder,
        holder.hold("door", ttl=HOUR / 2),
        Locks(backend, LocalBus(), owner="idle", clock=clock) as idle,
    ):
        clock.set(clock.now() + HOUR)
        with pytest.raises(WaitTimeout):
            await idle.acquire("door", wait=0)


async def test_nor_an_entry_in_a_transaction_of_its_caller(
    clock: VirtualClock, store: Store, pg_dsn: str
) -> None:
    """The script runs on the connection of the caller, so no connection of the store is asked before."""
    idle = Ledger(store, clock=clock)
    connection = await asyncpg.connect(pg_dsn)
    async with Ledger.connect(pg_dsn) as holder:
        await holder.begin(*PLACE, "request", lease_seconds=HOUR / 2)
        clock.set(clock.now() + HOUR)
        async with connection.transaction():
            with pytest.raises(InProgress):
                await idle.begin(*PLACE, "request", tx=connection)
    await connection.close()
