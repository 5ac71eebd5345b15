"""Faults inside a process: loops that die, lost answers, a full disk."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast import Context, Status, Task, TaskQueue
from holdfast.clock import VirtualClock
from holdfast.core import claiming
from holdfast.core.claiming import ClaimFirst, ClaimState, Hint, ReadUpcoming, Step
from holdfast.engine import supervisor
from holdfast.engine.dispatcher import Dispatcher
from holdfast.errors import EngineFailed, StoreUnavailable
from holdfast.store.postgres import connection as postgres
from holdfast.store.store import ClaimRequest, Store
from tests.acceptance.apps import journal
from tests.acceptance.apps.gate import Gate
from tests.acceptance.apps.harness import Feed, eventually
from tests.acceptance.apps.jobs import make_queue

QUICK: dict[str, Any] = {"lease_seconds": 1.0, "base_retry_delay": 0.01, "shutdown_timeout": 2.0}


def store_of(queue: TaskQueue) -> Store:
    assert queue.parts.sessions.here.resources is not None
    return queue.parts.sessions.here.resources.store


def loops_store_of(queue: TaskQueue) -> Store:
    """The store of its engine's loops."""
    assert queue.parts.sessions.engine is not None
    return queue.parts.sessions.engine.loop_store


def failing(
    verb: Callable[..., Awaitable[Any]],
    times: int | list[str],
    error: Exception,
    *,
    after: bool = False,
) -> Callable[..., Awaitable[Any]]:
    """The verb, failing the first times, before or after its work is done. All verbs that share a list of
    times use it up together."""
    left = [""] * times if isinstance(times, int) else times

    async def call(*args: Any, **kwargs: Any) -> Any:
        if not left:
            return await verb(*args, **kwargs)
        if after:
            answer = await verb(*args, **kwargs)
            if isinstance(answer, list) and not answer:
                return answer
            if hasattr(answer, "tasks") and not answer.tasks:
                return answer
        left.pop()
        raise error

    return call


def claim_only(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hint makes a dispatcher claim the first task, or many, whatever its state."""

    def begin(state: ClaimState, hint: Hint, free: int, now: float) -> Step:
        if hint is Hint.NONE:
            return ReadUpcoming()
        return ClaimFirst() if how == "first" else claiming.claim_many(state, free, now)

    monkeypatch.setattr(claiming, "begin", begin)


@pytest.mark.parametrize(
    "verb",
    ["claim", "finish", "heartbeat", "upkeep.next", "backlog.first_due", "backlog.open_gates"],
)
async def test_a_dead_loop_is_restarted_and_a_recoverable_one_continues(
    url: str, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with make_queue(url, "work", "key_rated", **QUICK) as queue:
        store = loops_store_of(queue)
        part, _, name = verb.rpartition(".")
        owner = getattr(store, part) if part else store
        broken = failing(getattr(owner, name), 3, RuntimeError("a bug"))
        monkeypatch.setattr(owner, name, broken)
        tasks = [await queue.enqueue("work", {"value": n, "seconds": 0.4}) for n in range(3)]
        # Come together, so that some are parked until their rate opens, however slow the machine is.
        keyed = [{"type": "key_rated", "payload": {"value": n}, "key": "k"} for n in range(3, 12)]
        tasks += await queue.enqueue_many(keyed)
        assert [await task.result() for task in tasks] == [*range(12)]
        await eventually(lambda: restarts(queue) + troubles(queue) == 3)
        assert queue.is_running()


def troubles(queue: TaskQueue) -> int:
    """Counted troubles of loops that isolate a failure and go on."""
    assert queue.parts.sessions.engine is not None
    return sum(loop.troubles for loop in queue.parts.sessions.engine.loops)


def restarts(queue: TaskQueue) -> int:
    assert queue.parts.sessions.engine is not None
    return queue.parts.sessions.engine.supervisor.restarts


async def test_a_loop_that_dies_too_often_is_escalated(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "PAUSE_SECONDS", 0.001)
    monkeypatch.setattr(supervisor, "PAUSE_SECONDS_MAX", 0.002)
    queue = make_queue(url, "work", **QUICK)
    await queue.start()
    store = loops_store_of(queue)
    monkeypatch.setattr(store, "claim", failing(store.claim, 10**6, RuntimeError("a bug")))
    # Delayed: an idle worker would start it with the enqueue, without a claim.
    await queue.enqueue("work", {}, delay=0.01)
    async with asyncio.timeout(10):
        failure = await queue.wait_failed()
    assert isinstance(failure, EngineFailed)
    assert "dispatcher died 11 times" in str(failure)
    assert "a bug" in str(failure)
    assert not queue.is_running()
    monkeypatch.undo()
    await queue.stop()
    await queue.start()  # a fresh start is a fresh engine
    task = await queue.enqueue("work", {"value": 1})
    assert await task.result(10) == 1
    await queue.stop()


@pytest.mark.parametrize("how", ["first", "many"])
@pytest.mark.parametrize("lease_seconds", [1.0, 3.0])
async def test_a_claim_with_a_lost_answer_is_released_without_an_attempt(
    url: str, lease_seconds: float, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {**QUICK, "lease_seconds": lease_seconds}
    async with make_queue(url, "work", **settings) as queue:
        store = loops_store_of(queue)
        monkeypatch.setattr(Dispatcher, "is_idle", False)  # claims separately, not with an enqueue
        claim_only(how, monkeypatch)
        away, once = StoreUnavailable("the answer was lost"), ["once"]
        monkeypatch.setattr(store, "claim", failing(store.claim, once, away, after=True))
        task = await queue.enqueue("work", {"value": 1}, max_attempts=1)
        assert await task.result(10) == 1
        done = await task.get()
        assert (done.attempts, done.deaths, done.fence) == (1, 0, 3)
        kinds = [event.kind for event in await queue.history(task)]
        assert "task.released" in kinds
        assert "task.lost" not in kinds


async def test_an_enqueue_and_claim_with_a_lost_answer_cost_no_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On SQLite a task may be claimed in the commit that inserts it."""
    async with make_queue(f"sqlite:///{tmp_path}/queue.db", "work", **QUICK) as queue:
        store = loops_store_of(queue)
        engine = queue.parts.sessions.engine
        assert engine is not None
        await eventually(lambda: engine.dispatcher.is_idle)
        away = StoreUnavailable("the answer was lost")
        lost = failing(store.insert_and_claim, 1, away, after=True)
        monkeypatch.setattr(store, "insert_and_claim", lost)

        async def enqueue_until_it_fails() -> None:
            while True:  # The dispatcher may be about to claim: then the two do not share a commit.
                await (await queue.enqueue("work", {"value": 1}, max_attempts=1)).result(10)
                await eventually(lambda: engine.dispatcher.is_idle)

        with pytest.raises(StoreUnavailable):
            await enqueue_until_it_fails()
        [task, *_] = await queue.find_tasks()
        done = await queue.wait_task(task.id, 10)
        assert (done.status, done.attempts, done.deaths) == (Status.COMPLETED, 1, 0)
        kinds = [event.kind for event in await queue.history(task.id)]
        assert kinds.count("task.started") == 2
        assert "task.released" in kinds


async def test_a_checkpoint_survives_an_outage_of_the_store(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A handler's report waits for the store and costs no attempt."""
    queue = TaskQueue(url, **QUICK)

    async def work(task: Task, ctx: Context) -> object:
        store = store_of(queue)
        monkeypatch.setattr(store, "apply", failing(store.apply, 3, StoreUnavailable("away")))
        await ctx.save({"step": 1})
        await ctx.progress(0.5)
        return ctx.saved

    queue.register_handler("work", work)
    async with queue:
        task = await queue.enqueue("work", max_attempts=1)
        assert await task.result(10) == {"step": 1}
        assert (await task.get()).attempts == 1


async def test_a_finish_whose_answer_is_lost_is_not_done_twice(
    url: str, runs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with make_queue(url, "work", **QUICK) as queue:
        store = loops_store_of(queue)
        lost = failing(store.finish, 3, StoreUnavailable("the answer was lost"), after=True)
        monkeypatch.setattr(store, "finish", lost)
        tasks = [await queue.enqueue("work", {"value": n, "journal": runs}) for n in range(5)]
        assert [await task.result(10) for task in tasks] == list(range(5))
        kinds = [event.kind async for event in queue.events(follow=False)]
        assert kinds.count("task.completed") == 5
        assert "task.late" not in kinds
        stats = await queue.get_stats()
        assert (stats.fenced, stats.restarts) == (0, 0)
        assert queue.parts.sessions.engine is not None
        owned = queue.parts.sessions.engine.runs
        await eventually(lambda: not owned.by_id)
    assert sum(entry.what == "start" for entry in journal.read(runs)) == 5


async def test_a_claim_is_judged_when_it_reaches_the_database(pg_dsn: str) -> None:
    """The wait for a connection does not shorten the leases of a claim."""
    from holdfast.app import resources_for

    clock = VirtualClock()
    queue = make_queue(pg_dsn, "work")
    await queue.start()
    await queue.stop()
    producer = TaskQueue(pg_dsn, clock=clock)
    await producer.enqueue("work", {})
    resources = resources_for(pg_dsn, clock, server_time=False)()
    await resources.store.open()
    driver: Any = resources.store._driver
    claim = ClaimRequest(node="n", queues=("default",), types=("work",), limit=1, lease_seconds=5.0)
    held = [driver._pools.here().connection() for _ in range(driver._pools._size)]
    for each in held:
        await each.__aenter__()
    claiming = asyncio.create_task(resources.store.claim(claim))
    await asyncio.sleep(0)
    clock.set(clock.now() + 60)
    for each in held:
        await each.__aexit__(None, None, None)
    claimed = await claiming
    assert [task.lease_until for task in claimed.tasks] == [clock.now() + 5.0]
    await resources.store.close()
    await producer.stop()


async def test_a_client_that_freezes_in_a_transaction_does_not_hold_up_the_others(
    pg_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may hold the head of the feed, which all need: the server ends its session."""
    assert 1_000 <= int(postgres.SETTINGS["idle_in_transaction_session_timeout"]) <= 10_000
    monkeypatch.setitem(postgres.SETTINGS, "idle_in_transaction_session_timeout", "300")
    async with make_queue(pg_dsn, "work", **QUICK) as queue:
        frozen = await postgres.connect(pg_dsn)
        await frozen.execute("BEGIN")
        await frozen.execute(postgres.statements()["number_records"].text, 100)
        task = await queue.enqueue("work", {"value": 1})
        async with asyncio.timeout(10):
            kinds = [event.kind async for event in queue.events(follow=False)]
        assert "task.enqueued" in kinds
        assert await task.result(5) == 1
        frozen.terminate()


# -- a full disk -------------------------------------------------------------------------------------


async def test_a_full_disk_refuses_with_a_typed_error_and_recovers(tmp_path: Path) -> None:
    """Nothing is half-written, every acknowledged task exists, and work goes on afterwards."""
    path = tmp_path / "queue.db"
    async with make_queue(f"sqlite:///{path}", "work", **QUICK) as queue:
        before = await queue.enqueue("work", {"value": "before"})
        assert await before.result(5) == "before"
        set_pages(queue, pages_of(queue) + 8)
        acknowledged: list[str] = []
        refused: list[StoreUnavailable] = []

        async def fill() -> None:
            while not refused:
                try:
                    acknowledged.append(
                        await queue.enqueue("work", {"x": "y" * 20_000}, delay=3600)
                    )
                except StoreUnavailable as error:
                    refused.append(error)

        async with asyncio.timeout(20):
            await asyncio.gather(*(fill() for _ in range(16)))
        assert all("full" in str(error) for error in refused)
        set_pages(queue, 1_000_000)
        assert [task_id for task_id in acknowledged if await queue.get_task(task_id) is None] == []
        stats = await queue.get_stats()
        events = [e async for e in queue.events(follow=False) if e.kind == "task.enqueued"]
        assert len(events) == stats.pending + stats.completed + stats.processing
        assert {event.task_id for event in events} >= set(acknowledged)
        after = await queue.enqueue("work", {"value": "after"})
        assert await after.result(10) == "after"
        assert (await queue.get_stats()).restarts == 0
    check = sqlite3.connect(path)
    assert check.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    check.close()


def pages_of(queue: TaskQueue) -> int:
    driver: Any = store_of(queue)._driver
    return int(driver._writer.execute("PRAGMA page_count").fetchall()[0][0])


def set_pages(queue: TaskQueue, pages: int) -> None:
    driver: Any = store_of(queue)._driver
    driver._writer.execute(f"PRAGMA max_page_count = {pages}")


async def test_an_outcome_is_kept_until_a_full_disk_has_room_again(tmp_path: Path) -> None:
    async with (
        Gate() as gate,
        make_queue(f"sqlite:///{tmp_path}/queue.db", "work", **QUICK) as queue,
    ):
        feed = Feed(queue)
        task = await queue.enqueue(
            "work", {"gate": gate.address, "name": "x", "value": "z", "times": 500_000}
        )
        await gate.arrived(1)
        set_pages(queue, pages_of(queue))
        gate.open()
        assert queue.parts.sessions.engine is not None
        completer = queue.parts.sessions.engine.completer
        await eventually(lambda: completer.outages > 1)
        assert (await task.get()).status is Status.RUNNING
        set_pages(queue, 1_000_000)
        await feed.first("task.completed", task_id=task)
        done = await task.get()
        assert (done.attempts, done.deaths) == (1, 0)
        await feed.close()
