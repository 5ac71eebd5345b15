"""From the store to a worker: how much a process claims, and when."""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg
import pytest

from holdfast import Status, Task, TaskQueue
from holdfast.bus.port import WORK
from holdfast.engine.engine import Engine
from holdfast.store.postgres import connection as postgres
from holdfast.store.postgres.pool import RESERVED
from holdfast.store.script import Rows, StatementCall
from tests.acceptance.apps.gate import Gate
from tests.acceptance.apps.jobs import make_queue


class Still(TaskQueue):
    """A queue whose engine does nothing by itself: the test ticks its loops."""

    def __init__(self, url: str, **settings: Any) -> None:
        super().__init__(url, **settings)
        self.parts.runtime.start_engine = Engine.prepare

    @property
    def engine(self) -> Engine:
        engine = self.parts.sessions.engine
        assert engine is not None
        return engine


async def test_a_process_takes_no_more_than_it_can_run(url: str) -> None:
    """Two claims in a row, before the first task's worker has woken up, take one task for one worker."""
    queue = Still(url, max_workers=1, shutdown_timeout=0)

    async def hold(task: Task) -> None:
        await asyncio.Event().wait()

    queue.register_handler("hold", hold)
    await queue.start()
    await queue.enqueue_many([{"type": "hold"} for _ in range(3)])
    await queue.engine.dispatcher.tick()
    await queue.engine.dispatcher.tick()
    assert (await queue.get_stats()).processing == 1
    await queue.stop()


@pytest.mark.parametrize("workers", [4, 8, 20])
async def test_every_free_worker_gets_work_while_others_are_busy_for_long(
    url: str, workers: int
) -> None:
    """All workers but one are busy without end: the last one still serves the queue."""
    async with (
        Gate() as gate,
        make_queue(url, "work", max_workers=workers, shutdown_timeout=1.0) as queue,
    ):
        for n in range(workers - 1):
            await queue.enqueue("work", {"gate": gate.address, "name": f"n{n}"})
        await gate.arrived(workers - 1)
        for n in range(5):
            task = await queue.enqueue("work", {"value": n})
            assert await task.result(5) == n
        gate.open()


async def test_short_tasks_are_not_held_behind_long_ones(shared_url: str) -> None:
    """A process that claimed ahead and then became busy releases what it cannot start."""
    kept = {"max_workers": 2, "lease_seconds": 30.0, "shutdown_timeout": 1.0}
    async with Gate() as gate, make_queue(shared_url, "work", **kept) as busy:
        for task in await busy.enqueue_many([{"type": "work"} for _ in range(200)]):
            await task.wait(20)
        batch: list[dict[str, Any]] = [
            {"type": "work", "payload": {"gate": gate.address}, "priority": "critical"},
            {"type": "work", "payload": {"gate": gate.address}, "priority": "critical"},
            *({"type": "work"} for _ in range(50)),
        ]
        tasks = await busy.enqueue_many(batch)
        await gate.arrived(2)
        async with make_queue(shared_url, "work", **kept) as other:
            for task in tasks[2:]:
                assert (await task.wait(10)).attempts == 1
            assert (await other.get_stats()).processing == 2
        gate.open()


@pytest.mark.usefixtures("no_polls")
async def test_a_task_that_comes_while_the_worker_idles_starts_without_a_poll(url: str) -> None:
    async with make_queue(url, "work") as queue:
        for n in range(5):
            task = await queue.enqueue("work", {"value": n})
            assert await task.result(20) == n


@pytest.mark.usefixtures("no_polls")
async def test_a_delayed_task_starts_when_it_is_due_and_not_before(url: str) -> None:
    async with make_queue(url, "work") as queue:
        task = await queue.enqueue("work", {"value": 1}, delay=0.3)
        assert (await task.get()).status is Status.QUEUED
        assert await task.result(20) == 1
        done = await task.get()
        assert done.started_at is not None
        assert done.started_at - done.created_at >= 0.3


async def test_sixty_four_callers_at_once(url: str) -> None:
    """Each gets its own answer; all run once."""
    async with make_queue(url, "work", max_workers=20) as queue:

        async def call(caller: int) -> list[object]:
            tasks = [await queue.enqueue("work", {"value": [caller, n]}) for n in range(10)]
            return [await task.result(20) for task in tasks]

        answers = await asyncio.gather(*(call(caller) for caller in range(64)))
        assert answers == [[[caller, n] for n in range(10)] for caller in range(64)]
        assert (await queue.get_stats()).completed == 640


async def test_ten_thousand_at_once(url: str) -> None:
    """One batch of the maximum size, all or none, then run completely."""
    async with make_queue(url, "work", max_workers=50) as queue:
        handles = await queue.enqueue_many({"type": "work"} for _ in range(10_000))
        assert len(set(handles)) == 10_000
        assert all(handle.created for handle in handles)
        await handles[-1].wait(60)
        for handle in handles:
            await handle.wait(60)
        stats = await queue.get_stats()
        assert (stats.completed, stats.pending, stats.processing) == (10_000, 0, 0)


async def test_an_idle_worker_asks_little_for_one_task(
    pg_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One claim of one, one claim for more; its end notifies no other node."""
    # On a busy machine a scan may seem expensive, and the next claim then looks at more.
    monkeypatch.setattr("holdfast.store.fast.floors.CHEAP_SECONDS", 3_600.0)
    asked: list[str] = []
    execute = postgres.execute

    async def counting(connection: postgres.Connection, call: StatementCall) -> Rows:
        asked.append(call.name)
        return await execute(connection, call)

    queue, ran = Still(pg_dsn), asyncio.Event()

    async def work(task: Task) -> None:
        ran.set()

    queue.register_handler("work", work)
    await queue.start()
    engine = queue.engine
    engine._unsubscribe()  # Hints come from here only.
    engine.dispatcher.wake()
    await engine.dispatcher.step()  # Claims once whatever there is.
    monkeypatch.setattr(postgres, "execute", counting)
    await queue.enqueue("work")
    engine.dispatcher.hinted(one=True)
    await engine.dispatcher.step()
    async with asyncio.timeout(5):
        await ran.wait()
    await engine.completer.step()
    recounts = [name for name in asked if name in ("number_records", "count_records", "counters")]
    assert [name for name in asked if name not in recounts] == [
        *("insert_one", "claim_next", "first_due", "complete_alike")
    ]
    assert not engine.dispatcher.is_woken
    await queue.stop()


async def test_a_task_with_others_waiting_is_claimed_with_them(pg_dsn: str) -> None:
    """Hints of single tasks that arrive together, or after a full claim, do not mean a single task."""
    queue, ran = Still(pg_dsn, max_workers=10), list[Task]()

    async def work(task: Task) -> None:
        ran.append(task)

    queue.register_handler("work", work)
    await queue.start()
    dispatcher = queue.engine.dispatcher
    queue.engine._unsubscribe()
    for n in range(3):  # No claim has run yet: the first hint may not be all.
        await queue.enqueue("work", n)
    dispatcher.hinted(one=True)
    await dispatcher.step()
    await asyncio.sleep(0)
    assert [task.payload for task in ran] == [0, 1, 2]
    for n in range(3, 6):
        await queue.enqueue("work", n)
        dispatcher.hinted(one=True)
    await dispatcher.step()
    await asyncio.sleep(0)
    assert [task.payload for task in ran] == list(range(6))
    await queue.engine.completer.step()
    await queue.stop()


async def test_a_worker_warms_up_before_its_first_task(pg_dsn: str) -> None:
    """Connections are open and plans made, and no trace is left."""
    queue = Still(pg_dsn)

    async def work(task: Task) -> None:
        return

    queue.register_handler("work", work)
    await queue.start()
    connection = await asyncpg.connect(pg_dsn)
    open_ones = await connection.fetchval(
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'holdfast' "
        "AND datname = current_database()"
    )
    assert open_ones == RESERVED
    rows = await connection.fetch("SELECT events_json FROM holdfast_feed")
    assert ["node.registered" in str(row[0]) for row in rows] == [True], "that it came, and no more"
    await connection.close()
    await queue.stop()


@pytest.mark.parametrize(("opened", "is_notified"), [(0, False), (2, False), (3, True)])
async def test_a_node_that_unparks_more_than_it_can_run_notifies_others(
    opened: int, is_notified: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue, heard = Still("sqlite://", max_workers=2), list[str]()

    async def work(task: Task) -> None:
        return

    async def open_gates() -> tuple[int, float | None]:
        return opened, None

    queue.register_handler("work", work)
    await queue.start()
    assert queue.parts.sessions.here.resources is not None
    queue.parts.sessions.here.resources.bus.subscribe(heard.append, WORK)
    backlog = queue.parts.sessions.here.resources.store.backlog
    monkeypatch.setattr(backlog, "open_gates", open_gates)
    await queue.engine.dispatcher._open_gates(0.0)
    assert heard == [WORK] * is_notified
    await queue.stop()
