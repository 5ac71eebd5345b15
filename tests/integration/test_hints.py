"""Wake-ups through PostgreSQL come after what they are about can be seen."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from holdfast import Task, TaskQueue
from holdfast.bus.local import LocalBus
from holdfast.bus.port import FEED, WORK
from holdfast.bus.postgres import CHANNEL, WORK_CHANNEL


@pytest.fixture
async def queue(pg_dsn: str) -> AsyncIterator[TaskQueue]:
    worker, queue = TaskQueue(pg_dsn), TaskQueue(pg_dsn)

    async def work(task: Task) -> None:
        return

    worker.register_handler("work", work)
    async with worker:
        pass  # The type is known to the store now.
    await queue.open()
    yield queue
    await queue.stop()


@pytest.fixture
async def heard(pg_dsn: str) -> AsyncIterator[asyncio.Event]:
    """Set when anybody is told that there is work."""
    event = asyncio.Event()

    def receive(_connection: object, _pid: int, _channel: str, payload: object) -> None:
        if payload == WORK:
            event.set()

    listener = await asyncpg.connect(pg_dsn)
    await listener.add_listener(WORK_CHANNEL, receive)
    yield event
    await listener.close()


async def test_a_hint_that_does_not_ride_along_follows_the_commit(
    queue: TaskQueue, heard: asyncio.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = await queue.open()
    backend.bus.ride_along(WORK)  # A moment ago: the next enqueue carries none.
    monkeypatch.setattr("holdfast.bus.postgres.QUIET_SECONDS", 1e9)
    done: list[str] = []
    publish, insert = backend.bus.publish, backend.store.insert_plain

    async def inserting(*args: Any, **kwargs: Any) -> Any:
        found = await insert(*args, **kwargs)
        done.append("committed")
        return found

    def publishing(topic: str) -> None:
        done.append(topic)
        publish(topic)

    monkeypatch.setattr(backend.store, "insert_plain", inserting)
    monkeypatch.setattr(backend.bus, "publish", publishing)
    await queue.enqueue("work")
    async with asyncio.timeout(10):
        await heard.wait()
    assert done == ["committed", WORK]


async def test_a_carried_enqueue_always_has_its_hint_with_it(
    queue: TaskQueue, heard: asyncio.Event, pg_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody but the caller knows when it commits, so no hint may come before and none after."""
    backend = await queue.open()
    backend.bus.ride_along(WORK)
    monkeypatch.setattr("holdfast.bus.postgres.QUIET_SECONDS", 1e9)
    hints: list[str] = []
    insert = backend.store.insert_carried

    async def inserting(*args: Any, hint: str) -> Any:
        hints.append(hint)
        return await insert(*args, hint=hint)

    monkeypatch.setattr(backend.store, "insert_carried", inserting)
    connection = await asyncpg.connect(pg_dsn)
    async with connection.transaction():
        await queue.enqueue("work", tx=connection)
        await queue.enqueue_many([{"type": "work"}], tx=connection)
    async with asyncio.timeout(10):
        await heard.wait()
    assert hints == [WORK, WORK]
    await connection.close()


async def test_who_runs_no_workers_does_not_hear_of_every_enqueue(
    queue: TaskQueue, heard: asyncio.Event, pg_dsn: str
) -> None:
    received: list[str] = []
    last = asyncio.Event()
    backend = await queue.open()

    def receive(topic: str) -> None:
        received.append(topic)
        last.set()

    backend.bus.subscribe(receive, FEED)
    hinted: list[str] = []
    LocalBus.subscribe(backend.bus, hinted.append)  # type: ignore[arg-type]
    await queue.enqueue("work")
    other = await asyncpg.connect(pg_dsn)
    async with asyncio.timeout(10):
        await heard.wait()
        await other.execute(
            "SELECT pg_notify($1, $2)", CHANNEL, FEED
        )  # Comes behind all before it.
        await last.wait()
    await other.close()
    # What this process publishes itself it hears at once; what comes over the wire is only the last.
    assert (received, hinted.count(WORK)) == ([FEED], 0)


async def test_a_listener_hears_of_its_topics_only() -> None:
    bus, some, every = LocalBus(), list[str](), list[str]()
    bus.subscribe(some.append, FEED)
    end = bus.subscribe(every.append)
    bus.publish(FEED)
    bus.publish(WORK)
    end()
    bus.publish(FEED)
    assert (some, every) == ([FEED, FEED], [FEED, WORK])
