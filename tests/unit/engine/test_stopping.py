"""The stop of an engine: running tasks, tasks that did not start, new work."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import Status, Task, TaskQueue
from holdfast.errors import QueueStopping
from holdfast.testing import harness


async def test_a_stop_gives_back_tasks_that_did_not_start(queue: TaskQueue) -> None:
    async with harness(queue, max_workers=2) as h:
        gate = asyncio.Event()

        async def hold(task: Task) -> str:
            await gate.wait()
            return "done"

        queue.register_handler("hold", hold)
        handles = [await queue.enqueue("hold") for _ in range(2)]
        await h.run_until_idle()
        late = await queue.enqueue("hold")
        resources = await queue.open()
        claimed = (await resources.store.reads.get([late]))[late]
        assert claimed.status is Status.QUEUED
        stopping = asyncio.create_task(h.engine.stop())
        for _ in range(20):
            await asyncio.sleep(0)
        gate.set()
        while not stopping.done():
            await asyncio.sleep(0)
            await h.engine.completer.step()
        assert [(await handle.get()).result for handle in handles] == ["done", "done"]
        task = await late.get()
        assert (task.status, task.attempts, task.deaths) == (Status.QUEUED, 0, 0)


async def test_a_stop_that_times_out_gives_tasks_back_without_spending_an_attempt(
    queue: TaskQueue,
) -> None:
    cancelled: list[str] = []
    async with harness(queue, shutdown_timeout=30.0, task_timeout=None) as h:

        async def hang(task: Task) -> None:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.append(task.id)
                raise

        queue.register_handler("hang", hang, max_attempts=1)
        handle = await queue.enqueue("hang")
        await h.run_until_idle()
        resources = await queue.open()
        stopping = asyncio.create_task(h.engine.stop())
        for _ in range(200):
            await asyncio.sleep(0)
            if (wake := h.clock.next_wake()) is not None:
                h.clock.set(wake)
            if stopping.done():
                break
        await stopping
        task = (await resources.store.reads.get([handle]))[handle]
        assert cancelled == [handle]
        assert (task.status, task.attempts, task.deaths) == (Status.QUEUED, 0, 0)


async def test_a_stopping_queue_takes_no_new_work(queue: TaskQueue) -> None:
    async def work(task: Task) -> None: ...

    queue.register_handler("work", work)
    async with harness(queue):
        queue.parts.sessions.here.stopping = True
        with pytest.raises(QueueStopping, match="takes no new work"):
            await queue.enqueue("work")
        queue.parts.sessions.here.stopping = False
