"""Callers' open transactions and the engines, and the start of tasks at a limit, on real queues.

Every wait ends with the event that it waits for; a fault makes it time out.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from holdfast import Status, Task, TaskQueue
from holdfast.engine.handle import TaskHandle
from tests.acceptance.apps import journal
from tests.acceptance.apps.gate import Gate
from tests.acceptance.apps.harness import Worker
from tests.acceptance.apps.jobs import make_queue
from tests.looks import look_again

TYPES = ("work", "one_by_one")


@pytest.fixture
async def connection(pg_dsn: str) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    async with make_queue(pg_dsn, *TYPES):
        pass  # The schema and the types exist.
    made = await asyncpg.connect(pg_dsn)
    yield made
    await made.close()


async def test_an_open_enqueue_under_a_limit_stops_no_worker(
    pg_dsn: str, connection: asyncpg.Connection[asyncpg.Record]
) -> None:
    async with make_queue(pg_dsn, *TYPES, max_workers=4) as queue:
        async with connection.transaction():
            inside = await queue.enqueue("one_by_one", {"value": "inside"}, tx=connection)
            limited = [await queue.enqueue("one_by_one", {"value": n}) for n in range(3)]
            plain = [await queue.enqueue("work", {"value": n}) for n in range(3)]
            assert [await task.result(5) for task in plain] == [0, 1, 2]
            assert [await task.result(5) for task in limited] == [0, 1, 2]
        assert await inside.result(5) == "inside"


async def test_an_open_enqueue_of_a_child_costs_no_task_its_lease(
    pg_dsn: str, connection: asyncpg.Connection[asyncpg.Record], runs: str
) -> None:
    """The transaction stays open for longer than a lease; the parent ends meanwhile."""
    producer = TaskQueue(pg_dsn)
    async with Gate() as gate, Worker(pg_dsn, "work", lease_seconds=1.5) as worker:
        slow = {"journal": runs, "gate": gate.address, "name": "slow"}
        parent, *others = await producer.enqueue_many(
            [{"type": "work", "payload": slow | {"note": n}} for n in ("parent", *"abcd")]
        )
        await gate.arrived(5, "slow")
        async with connection.transaction():
            child = await producer.enqueue("work", {"value": 1}, depends_on=[parent], tx=connection)
            ends = {task: (await task.get()).lease_until or 0.0 for task in (parent, *others)}
            async with asyncio.timeout(10):
                for _ in range(3):  # Three leases, each renewed.
                    for task, end in ends.items():
                        ends[task] = await renewed(task, end)
            gate.open()
            for task in (parent, *others):
                done = await task.wait(5)
                assert (done.status, done.attempts, done.deaths) == (Status.COMPLETED, 1, 0)
        assert await child.result(5) == 1
        await worker.stop()
    starts = [entry.note for entry in journal.read(runs) if entry.what == "start"]
    assert sorted(starts) == ["a", "b", "c", "d", "parent"]
    await producer.stop()


async def renewed(task: TaskHandle[Any], end: float) -> float:
    """Waits until the lease of a task ends later than this."""
    while (found := (await task.get()).lease_until or 0.0) <= end:
        await look_again()
    return found


@pytest.mark.parametrize("policy", ["fail", "ignore"])
async def test_a_child_fails_with_a_parent_that_died_before_its_commit(
    pg_dsn: str, connection: asyncpg.Connection[asyncpg.Record], policy: str
) -> None:
    may_fail = asyncio.Event()

    async def fail(task: Task) -> None:
        await may_fail.wait()
        raise ValueError("no")

    queue = make_queue(pg_dsn, *TYPES, max_workers=2)
    queue.register_handler("fail", fail, max_attempts=1)
    async with queue:
        parent = await queue.enqueue("fail")
        async with connection.transaction():
            child = await queue.enqueue(
                "work", {"value": 2}, depends_on={str(parent): policy}, tx=connection
            )
            may_fail.set()
            assert (await parent.wait(5)).status is Status.FAILED
        done = await child.wait(5)
        assert done.status is (Status.FAILED if policy == "fail" else Status.COMPLETED)


async def test_a_task_that_comes_while_its_rate_is_closed_starts_when_it_opens(url: str) -> None:
    """Long before the next poll, in whichever way each task is enqueued after the one before it."""
    async with make_queue(url, "key_rated", max_workers=4) as queue:
        for n in range(6):
            task = await queue.enqueue("key_rated", {"value": n}, key="k")
            assert await task.result(4) == n


async def test_a_closed_rate_opens_for_a_worker_in_another_process(shared_url: str) -> None:
    producer = TaskQueue(shared_url)
    async with Worker(shared_url, "key_rated") as worker:
        for n in range(4):
            task = await producer.enqueue("key_rated", {"value": n}, key="k")
            assert await task.result(4) == n
        await worker.stop()
    await producer.stop()
