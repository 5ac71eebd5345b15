"""One queue object over several event loops: one after another, at once, in threads; opened again."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Coroutine
from typing import Any

import pytest

from holdfast import Status, Task, TaskQueue, app
from holdfast.bus.peers import Peers
from holdfast.core import claiming
from holdfast.errors import NotRunning, StoreUnavailable, WrongLoop
from holdfast.primitives.idempotency.ledger import Ledger
from holdfast.primitives.locks.locks import Locks
from holdfast.queue import waiters
from holdfast.store.backends import store_for
from holdfast.store.feed import Page


def in_threads(*works: Coroutine[Any, Any, Any]) -> list[Any]:
    """Runs each in a thread with its own event loop, all at once; answers or errors in order."""
    answers: list[Any] = [None] * len(works)

    def run(n: int, work: Coroutine[Any, Any, Any]) -> None:
        try:
            answers[n] = asyncio.run(work)
        except BaseException as error:
            answers[n] = error

    threads = [threading.Thread(target=run, args=each) for each in enumerate(works)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return answers


def test_event_loops_one_after_another_use_one_queue(
    shared_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    queue = TaskQueue(shared_url)
    queue.register_handler("work", lambda payload: payload)
    ids = [asyncio.run(queue.enqueue("work", {"n": n})) for n in range(4)]
    ids += in_threads(queue.enqueue("work", {"n": 4}))

    async def look() -> list[Any]:
        found = [await queue.get_task(task_id) for task_id in ids]
        await queue.stop()
        return found

    tasks = asyncio.run(look())
    assert [task.payload for task in tasks] == [{"n": n} for n in range(5)]
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_four_event_loops_at_once(shared_url: str, caplog: pytest.LogCaptureFixture) -> None:
    queue = TaskQueue(shared_url)
    queue.register_handler("work", lambda payload: payload)
    barrier = threading.Barrier(4)

    async def produce(name: str) -> list[str]:
        await queue.open()
        await asyncio.to_thread(barrier.wait, 30)
        made = await asyncio.gather(
            *(queue.enqueue("work", {"by": name, "n": n}) for n in range(25))
        )
        await queue.stop()
        return [str(handle) for handle in made]

    answers = in_threads(*(produce(f"loop {n}") for n in range(4)))
    assert [answer for answer in answers if isinstance(answer, BaseException)] == []
    made = {task_id for answer in answers for task_id in answer}
    assert len(made) == 100
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
    if shared_url != "sqlite://":
        assert asyncio.run(_count(queue)) == 100


def test_two_event_loops_each_enqueue_one_task_after_the_other(shared_url: str) -> None:
    """Each loop has one caller, whose writes may run inline; every task is stored once, with its event."""
    queue = TaskQueue(shared_url)
    queue.register_handler("work", lambda payload: payload)
    barrier = threading.Barrier(2)

    async def produce(name: str) -> list[str]:
        await queue.open()
        await asyncio.to_thread(barrier.wait, 30)
        made = [str(await queue.enqueue("work", {"by": name, "n": n})) for n in range(100)]
        await asyncio.to_thread(barrier.wait, 30)
        stored = [task.payload for task_id in made if (task := await queue.get_task(task_id))]
        assert stored == [{"by": name, "n": n} for n in range(100)]
        await asyncio.to_thread(barrier.wait, 30)
        return made

    async def look() -> list[str]:
        backend = await queue.open()
        page = await backend.store.feed.read(None, 500)
        assert isinstance(page, Page)
        await queue.stop()
        return [event.task_id for event in page.events if event.kind == "task.enqueued"]

    async def produce_and_look() -> tuple[list[str], list[str]]:
        return await produce("first"), await look()

    both, other = in_threads(produce_and_look(), produce("second"))
    assert not isinstance(both, BaseException), both
    assert not isinstance(other, BaseException), other
    made, recorded = both
    assert len({*made, *other}) == 200
    assert sorted(recorded) == sorted([*made, *other])


async def _count(queue: TaskQueue) -> int:
    stats = await queue.get_stats()
    await queue.stop()
    return stats.pending


@pytest.mark.parametrize("where", ["file", "memory"])
async def test_a_task_of_another_thread_starts_at_once(shared_url: str, where: str) -> None:
    """Workers run in this loop; a thread with another loop enqueues and waits for the result."""
    queue = TaskQueue("sqlite://" if where == "memory" else shared_url)

    @queue.task
    async def double(n: int) -> int:
        return 2 * n

    async def produce() -> Any:
        handle = await double.enqueue(21)
        result = await handle.result(timeout=20)
        await queue.stop()
        return result

    async with queue:
        assert queue.is_running()
        assert await asyncio.to_thread(in_threads, produce()) == [42]
        assert queue.is_running(), "a producer that stops must not stop the workers"


async def test_event_loops_notify_each_other_without_datagrams(
    shared_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a system without datagrams. Polls are so rare here that only a hint can start the task in time."""

    def refuse(_: Peers) -> int:
        raise OSError("this system has no Unix sockets")

    monkeypatch.setattr(Peers, "open", refuse)
    monkeypatch.setattr(claiming, "PUSHED_POLL_SECONDS", 3_600.0)
    monkeypatch.setattr(waiters, "LOOK_SECONDS", 3_600.0)
    queue = TaskQueue(shared_url)

    @queue.task
    async def double(n: int) -> int:
        return 2 * n

    async def produce() -> Any:
        results = [await (await double.enqueue(n)).result(timeout=20) for n in range(3)]
        await queue.stop()
        return results

    async with queue:
        assert await (await double.enqueue(21)).result(timeout=20) == 42
        assert await asyncio.to_thread(in_threads, produce()) == [[0, 2, 4]]


async def test_workers_belong_to_the_loop_that_started_them(shared_url: str) -> None:
    queue = TaskQueue(shared_url)
    queue.register_handler("work", lambda payload: payload)
    async with queue:
        answers = await asyncio.to_thread(
            in_threads, queue.start(), queue.scale_workers(1), queue.stop()
        )
        assert [type(answer) for answer in answers] == [WrongLoop] * 3
        assert "another event loop" in str(answers[0])
        assert queue.is_running()


def test_workers_of_a_loop_that_ended_do_not_run(shared_url: str) -> None:
    queue = TaskQueue(shared_url)

    @queue.task
    async def work() -> str:
        return "done"

    asyncio.run(queue.start())
    assert not queue.is_running()

    async def again() -> object:
        async with queue:
            return await (await work.enqueue()).result(timeout=20)

    assert asyncio.run(again()) == "done"


def test_what_an_ended_loop_left_open_is_closed_by_a_stop(shared_url: str) -> None:
    def threads() -> list[str]:
        return [each.name for each in threading.enumerate() if each.name.startswith("holdfast")]

    queue, ledger, locks = (
        TaskQueue(shared_url),
        Ledger.connect(shared_url),
        Locks.connect(shared_url),
    )
    queue.register_handler("work", lambda payload: payload)
    before = threads()
    asyncio.run(queue.enqueue("work"))
    asyncio.run(ledger.open())
    asyncio.run(locks.open())
    for close in (queue.stop, ledger.close, locks.close):
        asyncio.run(close())
    assert threads() == before


# -- opened again ---------------------------------------------------------------------------------


async def test_a_queue_is_opened_and_stopped_any_number_of_times(shared_url: str) -> None:
    queue = TaskQueue(shared_url)
    queue.register_handler("work", lambda payload: payload)
    for n in range(3):
        await queue.open()
        await queue.enqueue("work", {"n": n})
        await queue.stop()
        with pytest.raises(NotRunning, match="stopped"):
            await queue.enqueue("work")
    for _ in range(2):
        async with queue:
            await queue.get_stats()


async def test_the_inner_of_two_nested_blocks_does_not_stop_the_outer(shared_url: str) -> None:
    queue = TaskQueue(shared_url)

    @queue.task
    async def work() -> str:
        return "done"

    async with queue:
        async with queue:
            await work.enqueue()
        assert queue.is_running()
        assert await (await work.enqueue()).result(timeout=20) == "done"
    assert not queue.is_running()
    with pytest.raises(NotRunning):
        await work.enqueue()


async def test_concurrent_starts_make_one_engine(shared_url: str) -> None:
    queue = TaskQueue(shared_url)
    queue.register_handler("work", lambda payload: payload)
    await asyncio.gather(*(queue.start() for _ in range(5)))
    assert len(await queue.get_nodes()) == 1
    await queue.stop()


async def test_a_start_that_fails_leaves_nothing_open(
    shared_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = TaskQueue(shared_url)
    make, made = queue.parts.sessions.make_resources, []

    def failing() -> Any:
        resources = make()
        monkeypatch.setattr(resources.bus, "start", _fail)
        made.append(resources)
        return resources

    monkeypatch.setattr(queue.parts.sessions, "make_resources", failing)
    with pytest.raises(OSError, match="no bus today"):
        await queue.open()
    with pytest.raises(StoreUnavailable, match="closed"):
        await made[0].store.feed.head()
    monkeypatch.undo()
    await queue.open()
    await queue.stop()


async def _fail() -> None:
    raise OSError("no bus today")


# -- primitives -----------------------------------------------------------------------------------


def test_a_ledger_is_used_from_several_event_loops(shared_url: str) -> None:
    ledger = Ledger.connect(shared_url)
    ran: list[int] = []

    async def call(key: str) -> Any:
        async def effect(turn: Any) -> str:
            ran.append(turn.attempt)
            return key

        return await ledger.run("shop", "pay", key, {}, effect)

    assert [asyncio.run(call("a")), asyncio.run(call("a")), asyncio.run(call("b"))] == [
        "a",
        "a",
        "b",
    ]
    assert in_threads(call("c"), call("d"), call("e")) == ["c", "d", "e"]
    assert len(ran) == 5
    asyncio.run(ledger.close())


def test_locks_go_on_in_a_new_loop_and_refuse_a_second_live_one(shared_url: str) -> None:
    locks = Locks.connect(shared_url)

    async def hold() -> int:
        async with locks.hold("r", wait=20) as lease:
            return lease.fence

    first, second = asyncio.run(hold()), asyncio.run(hold())
    assert second > first

    async def beside() -> list[Any]:
        async with locks.hold("other"):
            return await asyncio.to_thread(in_threads, hold())

    (refused,) = asyncio.run(beside())
    assert isinstance(refused, WrongLoop)
    assert "event loop" in str(refused)
    asyncio.run(locks.close())


async def test_a_stop_drains_beside_a_loop_that_ended_without_a_stop(shared_url: str) -> None:
    """The store of the ended loop is the store of this one: closing it early loses the outcome."""
    queue = TaskQueue(shared_url)
    started, may_end = asyncio.Event(), asyncio.Event()

    async def work(task: Task) -> str:
        started.set()
        await may_end.wait()
        return "done"

    queue.register_handler("work", work)
    await queue.start()
    await asyncio.to_thread(in_threads, queue.get_queue_size())
    handle = await queue.enqueue("work")
    await started.wait()
    stopping = asyncio.create_task(queue.stop())
    await asyncio.sleep(0)
    may_end.set()
    await stopping
    await queue.open()
    task = await queue.get_task(handle)
    await queue.stop()
    assert task is not None
    assert (task.status, task.result) == (Status.COMPLETED, "done")


def test_threads_that_open_a_queue_at_once_get_one_store(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two stores on one file get in each other's way; two stores in memory lose tasks."""
    together = threading.Barrier(4)

    def slowly(*args: Any, **options: Any) -> Any:
        make = store_for(*args, **options)

        def made() -> Any:
            together.wait(60)
            return make()

        return made

    monkeypatch.setattr(app, "store_for", slowly)
    queue = TaskQueue("sqlite://")
    queue.register_handler("work", lambda payload: payload)
    handles = in_threads(*(queue.enqueue("work", n) for n in range(4)))
    assert [str(handle) for handle in handles if isinstance(handle, Exception)] == []

    async def size() -> int:
        size = await queue.get_queue_size()
        await queue.stop()
        return size

    assert asyncio.run(size()) == 4
