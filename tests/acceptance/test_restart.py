"""PostgreSQL goes away under load and comes back: every loop survives, nothing is lost or done twice."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import asyncpg
import pytest

from holdfast import TaskQueue
from holdfast.bus import postgres as bus
from holdfast.bus.port import Mode
from holdfast.errors import StoreUnavailable
from proof.lab.servers import Postgres
from tests.acceptance.apps.harness import (
    Feed,
    Worker,
    assert_contiguous,
    eventually,
    whole_feed,
)
from tests.acceptance.apps.jobs import make_queue

SETTINGS: dict[str, Any] = {"lease_seconds": 2.0, "max_workers": 8, "max_deaths": 50}


@pytest.fixture
def server() -> Iterator[Postgres]:
    """A separate server, with the durability of production."""
    with Postgres(fsync="on", synchronous_commit="on", full_page_writes="on") as server:
        yield server


class Load:
    """Callers that enqueue all the time and record the acknowledged tasks."""

    def __init__(self, queue: TaskQueue, callers: int = 4) -> None:
        self._queue = queue
        self.acknowledged: list[str] = []
        self.refused: list[StoreUnavailable] = []
        self._enough = asyncio.Event()
        self._progress = asyncio.Condition()
        self.callers = [asyncio.create_task(self._call()) for _ in range(callers)]

    async def _call(self) -> None:
        pause = 0.01
        while not self._enough.is_set():
            try:
                self.acknowledged.append(await self._queue.enqueue("work", {"seconds": 0.002}))
            except StoreUnavailable as error:
                self.refused.append(error)
                await asyncio.sleep(pause)
            async with self._progress:
                self._progress.notify_all()

    async def more(self, count: int = 100) -> None:
        """Waits until this many further tasks have been acknowledged."""
        wanted = len(self.acknowledged) + count
        async with asyncio.timeout(30), self._progress:
            await self._progress.wait_for(lambda: len(self.acknowledged) >= wanted)

    async def stop(self) -> None:
        self._enough.set()
        await asyncio.gather(*self.callers)


async def assert_nothing_lost(queue: TaskQueue, load: Load) -> None:
    """Every acknowledged task exists and completed once; so did the others, if they exist."""
    assert [task_id for task_id in load.acknowledged if await queue.get_task(task_id) is None] == []
    feed = Feed(queue)
    await feed.ended(load.acknowledged)
    await feed.ended(list(feed.counts["task.enqueued"]))
    await feed.close()
    events = await whole_feed(queue)
    assert_contiguous(events)
    kinds: dict[str, Counter[str]] = {"task.enqueued": Counter(), "task.completed": Counter()}
    for event in events:
        kinds.setdefault(event.kind, Counter())[event.task_id] += 1
    assert set(kinds["task.enqueued"].values()) == {1}
    assert kinds["task.completed"] == kinds["task.enqueued"]
    stats = await queue.get_stats()
    assert (stats.pending, stats.processing) == (0, 0)
    assert stats.completed == len(kinds["task.completed"])


async def fast_restart(server: Postgres, load: Load) -> None:
    await asyncio.to_thread(server.restart)


async def crash(server: Postgres, load: Load) -> None:
    await asyncio.to_thread(server.kill)
    await asyncio.to_thread(server.start)


async def hang(server: Postgres, load: Load) -> None:
    """Silent for longer than the leases last; no call is acknowledged meanwhile."""
    await asyncio.to_thread(server.pause)
    try:
        acknowledged = len(load.acknowledged)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(SETTINGS["lease_seconds"] * 1.2):
                # One answer may be in flight for each caller.
                await load.more(len(load.callers) + 1)
        assert len(load.acknowledged) <= acknowledged + len(load.callers)
    finally:
        await asyncio.to_thread(server.resume)


async def terminate(server: Postgres, load: Load) -> None:
    """Terminates every other connection, repeatedly."""
    admin = await asyncpg.connect(server.dsn())
    try:
        for _ in range(5):
            gone = await admin.fetch(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
            )
            assert gone
            await load.more(20)
    finally:
        await admin.close()


@pytest.mark.parametrize("disaster", [fast_restart, crash, hang, terminate])
async def test_a_database_that_goes_away_under_load_is_survived(
    server: Postgres, disaster: Callable[[Postgres, Load], Awaitable[None]]
) -> None:
    url = server.dsn()
    async with make_queue(url, "work", **SETTINGS) as queue, Worker(url, "work", **SETTINGS) as far:
        load = Load(queue)
        for _ in range(2):
            await load.more(100)
            await disaster(server, load)
        await load.more(100)
        await load.stop()
        await assert_nothing_lost(queue, load)
        stats = await queue.get_stats()
        assert queue.is_running()
        assert stats.restarts == 0, "an outage is waited for, it kills no loop"
        await eventually(lambda: mode(queue).pushing)
        assert all("try" in str(error) or "is it running" in str(error) for error in load.refused)
        await far.stop()  # the other process finishes, too


def mode(queue: TaskQueue) -> Mode:
    assert queue.parts.sessions.here.resources is not None
    return queue.parts.sessions.here.resources.bus.mode()


async def test_hints_report_an_outage_and_recover(server: Postgres) -> None:
    async with make_queue(server.dsn(), "work", **SETTINGS) as queue:
        assert (await queue.get_stats()).hints.pushing
        await asyncio.to_thread(server.kill)
        await eventually(lambda: not mode(queue).pushing)
        down = mode(queue)
        assert "LISTEN is down" in down.why
        await asyncio.to_thread(server.start)
        await eventually(lambda: mode(queue).pushing)
        assert "verified by a probe" in (await queue.get_stats()).hints.why
        task = await queue.enqueue("work", {"value": 1})
        assert await task.result(10) == 1


async def test_each_outage_of_hints_starts_a_new_backoff(
    pg_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pauses between attempts grow within one outage, not over the life of the process."""
    monkeypatch.setattr(bus, "RECONNECT_SECONDS", (0.01, 60.0))
    async with make_queue(pg_dsn, "work") as queue:
        admin = await asyncpg.connect(pg_dsn)
        for _ in range(3):
            await eventually(lambda: mode(queue).pushing, 5)
            await admin.fetch(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND query ~* 'notify|listen' AND pid <> pg_backend_pid()"
            )
            await eventually(lambda: not mode(queue).pushing, 5)
        await eventually(lambda: mode(queue).pushing, 5)
        await admin.close()


async def test_listening_continues_after_any_failure(
    pg_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also by an error that is not a connection error, such as an internal error of the driver."""
    async with make_queue(pg_dsn, "work") as queue:
        broke = asyncio.Event()

        async def break_once(*_: object) -> None:
            monkeypatch.undo()
            broke.set()
            raise asyncpg.InternalClientError("another operation is in progress")

        monkeypatch.setattr(bus.PostgresBus, "_send", break_once)
        assert await (await queue.enqueue("work", {"value": 1})).result(10) == 1
        async with asyncio.timeout(10):
            await broke.wait()
        await eventually(lambda: not mode(queue).pushing)
        await eventually(lambda: mode(queue).pushing)


async def test_a_store_that_cannot_be_reached_at_the_start_is_a_typed_error() -> None:
    with Postgres() as server:
        url, missing = server.dsn(), server.dsn("nowhere")
        queue = TaskQueue(missing)
        with pytest.raises(StoreUnavailable, match="no such database: create it first"):
            await queue.start()
        server.kill()
        queue = make_queue(url, "work")
        with pytest.raises(StoreUnavailable, match="cannot be reached: is it running") as caught:
            await queue.start()
        assert caught.value.retryable
        with pytest.raises(StoreUnavailable, match="cannot be reached"):
            await queue.enqueue("work", {})
        assert not queue.is_running()
        await queue.stop()

        server.start()  # the same queue starts once the server is there
        queue = make_queue(url, "work")
        with pytest.raises(StoreUnavailable):
            await TaskQueue("postgresql://postgres@127.0.0.1:1/postgres").get_stats()
        async with queue:
            assert await (await queue.enqueue("work", {"value": 7})).result(10) == 7
