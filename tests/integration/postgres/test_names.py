"""An id and a name that two transactions give at the same moment stand for one task."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from holdfast.errors import DuplicateTask
from holdfast.store.postgres.driver import PostgresDriver
from holdfast.store.scripts.insert import insert
from holdfast.store.store import Store
from tests.backends import PostgresBench
from tests.conformance.sync.support import PROJECT, Plugin
from tests.conformance.tasks.helpers import asked, put
from tests.looks import look_again

BLOCKED = "SELECT count(*) FROM pg_locks WHERE NOT granted"


@pytest.fixture
async def connection(bench: PostgresBench) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    connection = await asyncpg.connect(bench.dsn)
    yield connection
    await connection.close()


async def test_a_push_waits_for_an_insert_of_its_name_as_an_id(
    store: Store, connection: asyncpg.Connection[asyncpg.Record]
) -> None:
    node = await Plugin(store, "n1").start()
    task = asked(store, "x", project=PROJECT)
    async with connection.transaction(), asyncio.timeout(20):
        await store.run_in_tx(
            connection,
            lambda dialect, ids, now: insert(
                [task], now=now, record_id=ids.record(now), recorder=dialect, in_tx=True
            ),
        )
        push = asyncio.create_task(node.one(id="x", expected_version=0))
        while not (await connection.fetchval(BLOCKED) or push.done()):
            await look_again()
    result = await push
    assert (result.success, result.error) == (False, "VERSION_CONFLICT")
    rows = await connection.fetch("SELECT id FROM holdfast_task WHERE project = $1", PROJECT)
    assert [row[0] for row in rows] == ["x"]


async def test_an_insert_waits_for_a_push_that_gives_its_id_as_a_name(
    bench: PostgresBench,
    store: Store,
    connection: asyncpg.Connection[asyncpg.Record],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(PostgresDriver, "_begin", "BEGIN")
    node, other = await Plugin(store, "n1").start(), await bench.open()
    async with connection.transaction(), asyncio.timeout(20):
        await connection.execute("UPDATE holdfast_project SET clock = clock")
        push = asyncio.create_task(node.one(id="x", expected_version=0))
        while not await connection.fetchval(BLOCKED):
            await look_again()
        task = asyncio.create_task(put(other, "x", project=PROJECT))
        while not (await connection.fetchval(BLOCKED) > 1 or task.done()):
            await look_again()
    assert (await push).success
    with pytest.raises(DuplicateTask):
        await task
