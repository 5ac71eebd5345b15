"""The log of the exchange is read in pages by number: entries of a project commit in that order."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from holdfast.store.postgres.driver import PostgresDriver
from holdfast.store.store import Store
from holdfast.sync.nodes.claims import TaskHeartbeat
from holdfast.sync.status import Monitor
from tests.backends import PostgresBench
from tests.conformance.sync.support import PROJECT, Plugin
from tests.looks import look_again

WAITING = "SELECT count(*) FROM pg_locks WHERE NOT granted"


async def test_a_reader_of_the_log_misses_no_entry_that_commits_late(
    bench: PostgresBench, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refused heartbeat has written its entry and waits for a row; a node registers meanwhile."""
    monkeypatch.setattr(PostgresDriver, "_begin", "BEGIN")
    first, second = await Plugin(store, "n1").start(), Plugin(await bench.open(), "n2")
    await first.create()
    task_id, log = await first.id_of("task-1"), Monitor(store).log
    await first.claims.beat(first.voice, task_id, TaskHeartbeat(fence=9))
    connection = await asyncpg.connect(bench.dsn)
    try:
        async with connection.transaction(), asyncio.timeout(20):
            await connection.execute("UPDATE holdfast_tally SET n = n WHERE name = 'fenced'")
            sign = asyncio.create_task(
                first.claims.beat(first.voice, task_id, TaskHeartbeat(fence=9))
            )
            while await connection.fetchval(WAITING) < 1:
                await look_again()
            start = asyncio.create_task(second.start())
            while await connection.fetchval(WAITING) < 2 and not start.done():
                await look_again()
            page = await log(PROJECT)
        await asyncio.gather(sign, start)
    finally:
        await connection.close()
    pages = page + await log(PROJECT, after=page[-1].id)
    assert [entry.id for entry in pages] == [entry.id for entry in await log(PROJECT)]
    assert [entry.op for entry in pages][-2:] == ["heartbeat", "register"]
