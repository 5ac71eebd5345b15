"""Callers that wait for results: a wait leaves nothing behind, however it ends."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast import TaskQueue
from holdfast.errors import NotFound, QueueFull, StoreUnavailable, WaitTimeout
from holdfast.queue import waiters
from holdfast.testing import harness


async def test_a_wait_whose_first_read_fails_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    queue = TaskQueue()
    queue.register_handler("work", lambda payload: payload)
    task_id = await queue.enqueue("work")
    store = (await queue.open()).store

    async def away(ids: Any) -> Any:
        raise StoreUnavailable("the store is away")

    with monkeypatch.context() as patch:
        patch.setattr(store.reads, "get", away)
        answers = await asyncio.gather(
            *(queue.wait_task(task_id) for _ in range(20)), return_exceptions=True
        )
    assert {type(answer) for answer in answers} == {StoreUnavailable}
    with pytest.raises(NotFound):
        await queue.wait_task("no such task")
    with pytest.raises(WaitTimeout):
        await queue.wait_task(task_id, timeout=0.0)
    waiting = asyncio.create_task(queue.wait_task(task_id))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert not queue.parts.sessions.here.waiters.has_waiters
    assert queue.parts.sessions.here.waiters._count == 0
    await queue.stop()


async def test_waits_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiters, "WAITS_MAX", 2)
    queue = TaskQueue()
    queue.register_handler("work", lambda payload: payload)
    task_id = await queue.enqueue("work")
    waiting = [asyncio.create_task(queue.wait_task(task_id)) for _ in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(QueueFull, match="wait for results"):
        await queue.wait_task(task_id)
    await queue.stop()
    assert len(await asyncio.gather(*waiting, return_exceptions=True)) == 2


async def test_a_failed_read_is_repeated(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(waiters, "LOOK_SECONDS", 0.01)
    queue = TaskQueue()
    queue.register_handler("work", lambda payload: payload)
    task_id = await queue.enqueue("work")
    store = (await queue.open()).store
    get, failed, looks = store.reads.get, asyncio.Event(), 0

    async def broken(ids: Any) -> Any:
        nonlocal looks
        looks += 1
        if looks == 1:
            return await get(ids)
        failed.set()
        raise ValueError("a bug")

    with monkeypatch.context() as patch:
        patch.setattr(store.reads, "get", broken)
        waiting = asyncio.create_task(queue.wait_task(task_id))
        await failed.wait()
    await queue.cancel(task_id)
    assert (await waiting).id == task_id
    assert "is retried" in caplog.text
    await queue.stop()


async def test_a_wait_for_a_task_that_cannot_start_is_logged_once(
    queue: TaskQueue, caplog: pytest.LogCaptureFixture
) -> None:
    queue.register_handler("work", lambda payload: payload)
    async with harness(queue) as h:
        await queue.pause_queue("default")
        ids = [await queue.enqueue("work") for _ in range(3)]
        waiting = [asyncio.create_task(queue.wait_task(task_id)) for task_id in ids]
        await h.advance(4)
        assert caplog.messages == []
        await h.advance(20)
        [message] = caplog.messages
        assert "waits for a task that cannot start" in message
        assert "queue 'default' was paused by api" in message
        await queue.resume_queue("default")
        await h.run_until_idle()
        assert {task.status for task in await asyncio.gather(*waiting)} == {"completed"}
