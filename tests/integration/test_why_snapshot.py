"""`why` reads one consistent state, and the history of a task has every record that mentions it."""

from __future__ import annotations

import asyncio
import threading

import pytest

from holdfast import TaskQueue
from holdfast.core.claiming import ClaimRequest
from holdfast.core.command import Complete, Instruction, Release
from holdfast.core.task import Task
from holdfast.queue.why import reasons_of
from holdfast.store.script import Script
from holdfast.store.situation import read_situation


def made(url: str) -> TaskQueue:
    queue = TaskQueue(url)
    queue.register_handler("work", lambda payload: payload, concurrency=1)
    return queue


async def claimed(queue: TaskQueue) -> list[Task]:
    store = (await queue.open()).store
    claim = ClaimRequest(
        node="n", queues=("default",), types=("work",), limit=1, lease_seconds=60.0
    )
    return (await store.claim(claim)).tasks


@pytest.mark.parametrize("after", range(4))
async def test_a_task_that_starts_meanwhile_is_not_held_up_by_itself(
    shared_url: str, after: int
) -> None:
    queue = made(shared_url)
    async with queue:
        await queue.pause_queue("default")
        task_id = await queue.enqueue("work")
    await queue.open()
    await queue.resume_queue("default")
    store = (await queue.open()).store

    async def start() -> None:
        other = made(shared_url)
        assert [task.id for task in await claimed(other)] == [task_id]
        await other.stop()

    def interrupted() -> Script[list[str]]:
        """Another process claims the task between two statements."""
        script = read_situation(task_id, store.now())
        rows, n = None, 0
        while True:
            try:
                wanted = next(script) if n == 0 else script.send(rows or [])
            except StopIteration as end:
                return [reason.text for reason in reasons_of(end.value)]
            if n == after:
                thread = threading.Thread(target=asyncio.run, args=(start(),))
                thread.start()
                thread.join(30)
            rows = yield wanted
            n += 1

    reasons = await store._driver.snapshot(interrupted)
    assert not [text for text in reasons if task_id in text]
    if after > 0:
        assert [text for text in reasons if "runs on" in text] == []
    await queue.stop()


async def test_a_late_result_is_in_the_history(shared_url: str) -> None:
    queue = made(shared_url)
    async with queue:
        await queue.pause_queue("default")
        task_id = await queue.enqueue("work")
    await queue.open()
    await queue.resume_queue("default")
    store = (await queue.open()).store
    (first,) = await claimed(queue)
    await store.apply([Instruction(task_id, Release("taken away"), fence=first.fence)])
    (second,) = await claimed(queue)
    assert second.fence > first.fence
    await store.finish([(first, Instruction(task_id, Complete('"late"'), fence=first.fence))])
    await store.finish([(second, Instruction(task_id, Complete('"done"'), fence=second.fence))])
    kinds = [event.kind for event in await queue.history(task_id)]
    assert kinds.count("task.late") == 1
    assert kinds[-1] == "task.completed"
    everything = [e async for e in queue.events(follow=False) if e.task_id == task_id]
    assert await queue.history(task_id) == everything
    await queue.stop()
