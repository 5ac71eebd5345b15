"""Opening, migrating and closing a store."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from holdfast.clock import VirtualClock
from holdfast.errors import InvalidInput, SchemaMismatch, StoreUnavailable
from holdfast.store.store import Store
from tests.backends import Bench, PostgresBench, SqliteBench
from tests.conformance.tasks.helpers import all_tasks, asked, check_counters, put, read_all


async def test_a_second_opening_finds_everything(shared_bench: Bench) -> None:
    first = await shared_bench.open()
    await put(first, "a")
    await first.close()
    second = await shared_bench.open()
    assert [task.id for task in await all_tasks(second)] == ["a"]
    await put(second, "b")
    assert [event.task_id for event in await read_all(second)] == ["a", "b"]
    await check_counters(second)


@pytest.mark.parametrize("kind", ["sqlite-file", "postgres"])
async def test_many_processes_may_open_an_empty_store_at_once(
    kind: str, clock: VirtualClock, tmp_path: Path, pg_empty_dsn: str
) -> None:
    is_file = kind == "sqlite-file"
    bench = (
        SqliteBench(clock, f"{tmp_path}/x.db") if is_file else PostgresBench(clock, pg_empty_dsn)
    )
    stores = await asyncio.gather(*(bench.open() for _ in range(5)))
    await asyncio.gather(*(put(store, f"{n}") for n, store in enumerate(stores)))
    assert len(await all_tasks(stores[0])) == 5
    await bench.close()


async def test_a_newer_schema_is_refused_and_not_touched(shared_bench: Bench) -> None:
    store = await shared_bench.open()
    await put(store, "a")
    await shared_bench.sql("INSERT INTO holdfast_migration VALUES (999, 'future', 'x')")
    before = await shared_bench.sql("SELECT * FROM holdfast_migration ORDER BY number")
    with pytest.raises(SchemaMismatch, match="upgrade holdfast"):
        await shared_bench.make().open()
    after = await shared_bench.sql("SELECT * FROM holdfast_migration ORDER BY number")
    assert before == after
    assert [task.id for task in await all_tasks(store)] == ["a"]


async def test_another_form_of_a_migration_is_refused(shared_bench: Bench) -> None:
    await shared_bench.open()
    await shared_bench.sql("UPDATE holdfast_migration SET checksum = 'other' WHERE number = 1")
    with pytest.raises(SchemaMismatch, match="another form"):
        await shared_bench.make().open()


async def test_a_closed_store_raises_not_running(bench: Bench) -> None:
    store = await bench.open()
    await put(store, "a")
    await store.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        await store.reads.get(["a"])
    with pytest.raises(StoreUnavailable, match="closed"):
        await put(store, "b")
    await store.close()


async def test_closing_answers_every_caller(bench: Bench) -> None:
    """A call during the close of the store is answered or refused, and does not hang."""
    store = await bench.open()
    closing = asyncio.create_task(store.close())
    calls: list[asyncio.Task[str]] = []
    while not closing.done():
        calls.append(asyncio.create_task(put(store)))
        await asyncio.sleep(0)
    async with asyncio.timeout(10):
        answers = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(answer, str | StoreUnavailable) for answer in answers)


async def test_an_object_that_is_no_connection_is_refused_as_tx(store: Store) -> None:
    with pytest.raises(InvalidInput, match="cannot carry"):
        await store.insert([asked(store)], tx=object())
    assert await all_tasks(store) == []
