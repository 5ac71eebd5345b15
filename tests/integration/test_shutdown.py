"""Graceful stop: running tasks end, the rest is released without using an attempt, new tasks are refused."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from holdfast import Status, Task, TaskQueue
from holdfast.errors import BadConfig, Conflict, NotRunning, QueueStopping
from tests.acceptance.apps.gate import Gate
from tests.acceptance.apps.harness import Worker, eventually, whole_feed
from tests.acceptance.apps.jobs import make_queue


async def test_stop_waits_for_what_runs_gives_back_the_rest_and_refuses_more(
    shared_url: str,
) -> None:
    watcher = TaskQueue(shared_url)
    async with Gate() as gate:
        queue = make_queue(shared_url, "work", max_workers=2)
        await queue.start()
        tasks = [
            await queue.enqueue("work", {"gate": gate.address, "name": f"n{n}"}, max_attempts=1)
            for n in range(6)
        ]
        await gate.arrived(2)
        engine = queue.parts.sessions.engine
        assert engine is not None
        stopping = asyncio.create_task(queue.stop())
        await eventually(lambda: engine.dispatcher.stopping)
        with pytest.raises(QueueStopping, match="takes no new work"):
            await queue.enqueue("work", {})
        with pytest.raises(QueueStopping):
            await queue.enqueue_many([{"type": "work"}])
        assert not stopping.done()
        gate.open()
        await stopping
        assert not queue.is_running()
        with pytest.raises((NotRunning, QueueStopping)):
            await queue.enqueue("work", {})
    found = [await watcher.get_task(task) for task in tasks]
    states = [(t.status, t.attempts, t.deaths) for t in found if t is not None]
    assert states == [(Status.COMPLETED, 1, 0)] * 2 + [(Status.QUEUED, 0, 0)] * 4
    assert (await watcher.get_stats()).nodes == 0
    await watcher.stop()


async def test_what_takes_longer_than_the_limit_is_cancelled_and_given_back(
    shared_url: str,
) -> None:
    watcher = TaskQueue(shared_url)
    async with Gate() as gate:
        queue = make_queue(
            shared_url, "work", "process_work", "thread_work", shutdown_timeout=0.2, max_workers=3
        )
        await queue.start()
        tasks = [
            await queue.enqueue(kind, {"gate": gate.address, "name": kind}, max_attempts=1)
            for kind in ("work", "process_work", "thread_work")
        ]
        await gate.arrived(3)
        await queue.stop()
        for kind in ("work", "process_work"):
            await gate.left(kind)
        gate.open()  # a thread cannot be stopped: it ends by itself
        await gate.left("thread_work")
    for task_id in tasks:
        task = await watcher.get_task(task_id)
        assert task is not None
        assert (task.status, task.attempts, task.deaths) == (Status.QUEUED, 0, 0)
    await watcher.stop()


async def test_stopping_under_load_leaves_nothing_behind(shared_url: str) -> None:
    """Start, work, stop, repeated at any moment: nothing keeps running, no attempt is used up."""
    watcher = TaskQueue(shared_url)
    async with make_queue(shared_url, "work"):
        pass
    tasks = await watcher.enqueue_many(
        {"type": "work", "payload": {"seconds": 0.001}, "max_attempts": 1} for _ in range(1_500)
    )
    for round_ in range(12):
        queue = make_queue(shared_url, "work", max_workers=1 + round_ % 4, lease_seconds=30.0)
        await queue.start()
        await tasks[(round_ + 1) * 30].wait(20)
        await queue.stop()
        stats = await watcher.get_stats()
        assert stats.processing == 0
    async with make_queue(shared_url, "work", max_workers=20):
        for task in tasks:
            done = await task.wait(30)
            assert (done.status, done.attempts, done.deaths) == (Status.COMPLETED, 1, 0)
    completed = [e.task_id for e in await whole_feed(watcher) if e.kind == "task.completed"]
    assert sorted(completed) == sorted(tasks)
    await watcher.stop()


async def test_a_stop_does_not_wait_for_a_backlog_of_short_tasks(shared_url: str) -> None:
    """A claim in progress ends; no other follows it, however fast workers become free."""
    queue = TaskQueue(shared_url)
    ran = asyncio.Event()

    async def short(task: Task) -> None:
        ran.set()

    queue.register_handler("short", short)
    await queue.enqueue_many([{"type": "short"}] * 4_000)
    await queue.start(max_workers=100)
    await ran.wait()
    await queue.stop()
    watcher = TaskQueue(shared_url)
    stats = await watcher.get_stats()
    await watcher.stop()
    assert stats.processing == 0
    assert stats.completed < 1_000


async def test_sigterm_to_a_worker_process(shared_url: str) -> None:
    watcher = TaskQueue(shared_url)
    async with Gate() as gate, Worker(shared_url, "work", max_workers=2) as worker:
        tasks = [
            await watcher.enqueue("work", {"gate": gate.address, "name": f"n{n}"}) for n in range(5)
        ]
        await gate.arrived(2)
        await worker.begin_to_stop()
        gate.open()
        await worker.stop()
        found = [await task.get() for task in tasks]
        assert [task.status for task in found[:2]] == [Status.COMPLETED] * 2
        assert {(task.status, task.attempts, task.deaths) for task in found[2:]} == {
            (Status.QUEUED, 0, 0)
        }
    await watcher.stop()


async def test_every_caller_of_stop_waits_for_the_end(url: str) -> None:
    async with Gate() as gate:
        queue = make_queue(url, "work")
        await queue.start()
        task = await queue.enqueue("work", {"gate": gate.address, "name": "x"})
        await gate.arrived(1)
        first = asyncio.create_task(queue.stop())
        second = asyncio.create_task(queue.stop())
        done, _ = await asyncio.wait({first, second}, timeout=0.1)
        assert not done, "a second stop returned while the first was under way"
        gate.open()
        await asyncio.gather(first, second)
        assert not queue.is_running()
        assert task


async def test_a_queue_can_be_started_again(url: str) -> None:
    seen: list[Any] = []

    async def handler(task: Task) -> None:
        seen.append(task.payload)

    queue = TaskQueue(url)
    queue.register_handler("note", handler)
    for n in range(3):
        async with queue:
            task = await queue.enqueue("note", n)
            await task.result(5)
            assert queue.is_running()
        assert not queue.is_running()
    assert seen == [0, 1, 2]


async def test_a_second_start_refuses_settings_that_it_cannot_put_into_force(url: str) -> None:
    queue = make_queue(url, "work")
    await queue.start(max_workers=4)
    await queue.start()
    await queue.start(max_workers=4)
    with pytest.raises(Conflict, match="already running with another max_workers: stop it first"):
        await queue.start(max_workers=9, shutdown_timeout=30.0)
    with pytest.raises(BadConfig, match="unknown setting"):
        await queue.start(workers=9)
    assert queue.settings.max_workers == 4
    await queue.stop()
    await queue.start(max_workers=9)
    assert queue.settings.max_workers == 9
    await queue.stop()


async def test_a_wait_for_a_result_ends_with_the_stop(url: str) -> None:
    queue = make_queue(url, "work")
    await queue.start()
    task = await queue.enqueue("work", {}, delay=3600)
    waiting = asyncio.create_task(task.result())
    await asyncio.sleep(0)
    await queue.enqueue("work", {})
    await queue.stop()
    with pytest.raises(NotRunning, match="stopped while waiting"):
        await waiting


async def test_handlers_that_take_all_threads_of_the_loop_do_not_delay_a_stop(
    shared_url: str,
) -> None:
    """Nor a start: threads of the store do not wait for those of handlers."""
    release = threading.Event()
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(1))
    taken = loop.run_in_executor(None, release.wait)
    try:
        async with asyncio.timeout(20), make_queue(shared_url, "work") as queue:
            assert queue.is_running()
    finally:
        release.set()
        await taken
