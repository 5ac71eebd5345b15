"""Messages of workers while an open transaction of another client holds rows that they need.

A change of a held task is answered: the worker sends it again. A row that tasks share delays the messages of
the workers that need it, and no others. `soon` fails what waits for the open transaction.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from typing import TypeVar

import asyncpg
import pytest

from holdfast.clock import SystemClock
from holdfast.core.limit import LimitRule
from holdfast.core.task import Status
from holdfast.core.transition import HELD
from holdfast.core.worker.wire import CheckpointChange, OutputChunk, TaskChange
from holdfast.store.port import RowHeld
from holdfast.store.postgres import connection as postgres
from holdfast.store.script import call, one as script_of
from holdfast.store.store import Store
from holdfast.sync.rows import own
from holdfast.sync.worker import live_rows
from holdfast.sync.worker.messages import MessageAnswer
from holdfast.sync.worker.worker_sync import WorkerSync
from tests.conformance.tasks.helpers import check_counters, put
from tests.conformance.worker.worker_support import Worker, one

T = TypeVar("T")


async def soon(answer: Awaitable[T]) -> T:
    return await asyncio.wait_for(answer, 5)


@pytest.fixture
async def foreign(store: Store, pg_dsn: str) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    """A connection with an open transaction."""
    connection = await asyncpg.connect(pg_dsn)
    await connection.execute("BEGIN")
    yield connection
    connection.terminate()


@pytest.fixture
async def sync(store: Store) -> AsyncIterator[WorkerSync]:
    sync = WorkerSync(store, SystemClock())
    yield sync
    await sync.close()


def done(task_id: str) -> TaskChange:
    return TaskChange(task_id=task_id, fence=1, status="completed")


def codes(answer: MessageAnswer) -> list[tuple[str, str]]:
    assert answer.ack.accepted
    return [(refused.task_id, refused.code) for refused in answer.ack.refused]


async def hold(foreign: asyncpg.Connection[asyncpg.Record], task_id: str) -> None:
    await foreign.execute("SELECT 1 FROM holdfast_task WHERE id = $1 FOR UPDATE", task_id)


async def test_a_held_task_delays_neither_its_worker_nor_others(
    store: Store, sync: WorkerSync, foreign: asyncpg.Connection[asyncpg.Record]
) -> None:
    first, second = await Worker(sync).start(), await Worker(sync, "w2", "boot-2").start()
    for task_id in ("a", "b", "c", "d"):
        await put(store, task_id)
    assert [task.id for task in await first.claim(3)] == ["a", "b", "c"]
    assert [task.id for task in await second.claim(1)] == ["d"]
    await hold(foreign, "a")
    answers = [
        sync.put(first.message(done("a"))),
        sync.put(second.message(TaskChange(task_id="d", fence=1, progress=0.5))),
        sync.put(first.message(done("b"))),
    ]
    assert [codes(await soon(answer)) for answer in answers] == [[("a", HELD)], [], []]
    report = first.message(
        TaskChange(task_id="a", fence=1, progress=0.5),
        OutputChunk(task_id="a", fence=1, data=b"text"),
        CheckpointChange(task_id="a", fence=1, checkpoint_id="cp", data_json="1"),
        TaskChange(task_id="c", fence=1, progress=0.7),
    )
    assert codes(await soon(sync.put(report))) == [("a", HELD)] * 3
    assert (await one(store, "b")).status is Status.COMPLETED
    assert (await one(store, "c")).progress == {"done": 0.7}
    await foreign.execute("ROLLBACK")
    assert codes(await soon(sync.put(first.message(done("a"), done("c"))))) == []
    assert (await one(store, "a")).status is Status.COMPLETED
    await check_counters(store)


async def test_a_held_task_of_another_project_stays_unknown(
    store: Store, sync: WorkerSync, foreign: asyncpg.Connection[asyncpg.Record]
) -> None:
    worker = await Worker(sync).start()
    await put(store, "a", project="other")
    await hold(foreign, "a")
    assert codes(await soon(sync.put(worker.message(done("a"))))) == [("a", "not-found")]


async def test_a_held_limit_delays_only_the_worker_that_needs_it(
    store: Store, sync: WorkerSync, foreign: asyncpg.Connection[asyncpg.Record]
) -> None:
    first, second = await Worker(sync).start(), await Worker(sync, "w2", "boot-2").start()
    await put(store, "a", type="limited", rules=(("key", LimitRule(max_running=1)),))
    await put(store, "b")
    await put(store, "c")
    assert [task.id for task in await first.claim(2)] == ["a", "b"]
    assert [task.id for task in await second.claim(1)] == ["c"]
    await foreign.execute("SELECT 1 FROM holdfast_limit FOR UPDATE")
    held = sync.put(first.message(done("a")))
    assert codes(await soon(sync.put(second.message(done("c"))))) == []
    behind = sync.put(first.message(done("b")))
    again = sync.put(second.message())
    assert codes(await soon(again)) == []
    assert not held.done()
    assert not behind.done()
    await foreign.execute("ROLLBACK")
    assert codes(await soon(held)) == codes(await soon(behind)) == []
    assert (await one(store, "a")).status is Status.COMPLETED
    assert (await one(store, "b")).status is Status.COMPLETED
    assert codes(await soon(sync.put(first.message()))) == []
    await check_counters(store)


async def test_a_gateway_that_stops_does_not_wait_for_held_rows(
    store: Store, sync: WorkerSync, foreign: asyncpg.Connection[asyncpg.Record]
) -> None:
    worker = await Worker(sync).start()
    await put(store, "a", type="limited", rules=(("key", LimitRule(max_running=1)),))
    await worker.claim(1)
    await foreign.execute("SELECT 1 FROM holdfast_limit FOR UPDATE")
    held = sync.put(worker.message(done("a")))
    await soon(sync.close())
    assert held.exception() is not None


async def test_messages_of_a_worker_do_not_wait_for_its_claims(
    store: Store, sync: WorkerSync, foreign: asyncpg.Connection[asyncpg.Record]
) -> None:
    worker = await Worker(sync).start()
    await put(store, "a")
    await worker.claim(1)
    # A claim at another gateway, which has not committed yet.
    assert await foreign.fetch(postgres.statements()[own("hear_node")].text, worker.node)
    assert codes(await soon(sync.put(worker.message(done("a"))))) == []
    assert (await one(store, "a")).status is Status.COMPLETED


async def test_a_change_of_a_node_waits_for_the_messages_of_its_worker(
    store: Store, sync: WorkerSync, foreign: asyncpg.Connection[asyncpg.Record]
) -> None:
    worker = await Worker(sync).start()
    lock_receivers = postgres.statements()[live_rows.own("lock_receivers")].text
    assert await foreign.fetch(lock_receivers, [worker.node])

    def locked(statement: str) -> Awaitable[object]:
        return store.run(
            lambda *_: script_of(call(own(statement), id=worker.node)), wait_seconds=0.0
        )

    await soon(locked("hear_node"))
    with pytest.raises(RowHeld):
        await soon(locked("lock_node"))
