"""Open transactions of callers, for tests of what they hold up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from typing import TypeVar

import asyncpg
import pytest

from holdfast.core.ledger import EntryKey, EntryRequest, Runner
from holdfast.core.limit import LimitRule
from holdfast.core.task import RunId, Task
from holdfast.store.ledger import EntryStore
from holdfast.store.store import Store
from tests.looks import look_again

ONE = LimitRule(max_running=1)
T = TypeVar("T")


async def soon(verb: Awaitable[T]) -> T:
    return await asyncio.wait_for(verb, 5)


class Caller:
    """An open transaction."""

    def __init__(self, connection: asyncpg.Connection[asyncpg.Record]) -> None:
        self.connection = connection
        self._transaction = connection.transaction()

    async def begin(self) -> None:
        await self._transaction.start()

    async def commit(self) -> None:
        await self._transaction.commit()

    async def rollback(self) -> None:
        await self._transaction.rollback()


@pytest.fixture
async def caller(store: Store, pg_dsn: str) -> AsyncIterator[Caller]:
    connection = await asyncpg.connect(pg_dsn)
    made = Caller(connection)
    await made.begin()
    yield made
    connection.terminate()


async def beat(store: Store, *tasks: Task) -> set[RunId]:
    runs = [RunId(task.id, task.fence) for task in tasks]
    return (await soon(store.heartbeat("node-a", "{}", runs, 9.0))).lost


async def until_one_waits(connection: asyncpg.Connection[asyncpg.Record]) -> None:
    """Waits until a transaction waits for a lock."""
    waiting = (
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE wait_event_type = 'Lock' AND datname = current_database()"
    )
    async with asyncio.timeout(5):
        while await connection.fetchval(waiting) == 0:
            await look_again()


async def take_step(store: Store, task: Task, caller: Caller) -> None:
    entries = EntryStore(store)
    ask = EntryRequest(
        entry_key=EntryKey("holdfast.step", "pay", task.id),
        fingerprint="f",
        owner="node-a",
        lease_seconds=9.0,
        retention_seconds=None,
        runner=Runner(task.id, task.fence),
    )
    verdict = await entries.begin(ask, tx=caller.connection)
    await entries.end(verdict.lease, None, tx=caller.connection)  # type: ignore[union-attr]
