"""Transactions on connections of an asyncpg pool, which are proxies around the connections themselves."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, TypeAlias

import asyncpg
import pytest

from holdfast import Context, TaskQueue
from holdfast.errors import InvalidInput
from holdfast.primitives.idempotency import Ledger
from holdfast.primitives.locks import Locks

Pool: TypeAlias = "asyncpg.Pool[asyncpg.Record]"


@pytest.fixture
async def pool(pg_dsn: str) -> AsyncIterator[Pool]:
    """One connection, which each caller sees through its own proxy."""
    async with asyncpg.create_pool(pg_dsn, min_size=1, max_size=1) as made:
        await made.execute("CREATE TABLE effect (name text)")
        yield made


async def test_an_enqueue_commits_with_the_callers_rows(pg_dsn: str, pool: Pool) -> None:
    queue = TaskQueue(pg_dsn)

    @queue.task
    async def work(value: int) -> int:
        return value

    async with queue:
        for value in range(3):
            async with pool.acquire() as connection, connection.transaction():
                task = await queue.enqueue("work", {"value": value}, tx=connection)
                many = await queue.enqueue_many(
                    [{"type": "work", "payload": {"value": value}}] * 2, tx=connection
                )
                assert await queue.get_task(task) is None
            assert [await each.result(5) for each in (task, *many)] == [value] * 3


async def test_a_call_of_the_ledger_commits_with_the_callers_rows(pg_dsn: str, pool: Pool) -> None:
    async def effect(_: object) -> int:
        return 7

    async with Ledger.connect(pg_dsn) as ledger:
        for _ in range(2):
            async with pool.acquire() as connection, connection.transaction():
                assert await ledger.run("s", "op", "key", {}, effect, tx=connection) == 7


async def test_a_step_commits_with_the_handlers_rows(pg_dsn: str, pool: Pool) -> None:
    queue = TaskQueue(pg_dsn)

    @queue.task
    async def pay(ctx: Context) -> str:
        async with pool.acquire() as connection, connection.transaction():

            async def effect(_: object) -> str:
                await connection.execute("INSERT INTO effect VALUES ('paid')")
                return "paid"

            answer: Any = await ctx.once("pay", effect, tx=connection)
            return str(answer)

    async with queue:
        assert await (await pay.enqueue()).result(5) == "paid"
    assert await pool.fetchval("SELECT count(*) FROM effect") == 1


async def test_a_guard_stands_in_the_callers_transaction(pg_dsn: str, pool: Pool) -> None:
    async with (
        Locks.connect(pg_dsn) as locks,
        locks.hold("r") as lease,
        pool.acquire() as connection,
        connection.transaction(),
    ):
        await lease.guard(connection)


async def test_a_pooled_connection_without_a_transaction_is_refused(
    pg_dsn: str, pool: Pool
) -> None:
    queue = TaskQueue(pg_dsn)

    @queue.task
    async def work() -> None:
        return

    async with queue, pool.acquire() as connection:
        with pytest.raises(InvalidInput, match="no open transaction"):
            await queue.enqueue("work", tx=connection)
