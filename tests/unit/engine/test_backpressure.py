"""A full queue: what producers get, and what counts."""

from __future__ import annotations

import pytest

from holdfast import Task, TaskQueue
from holdfast.core.pressure import Pressure
from holdfast.errors import (
    QueueFull,
)
from holdfast.testing import harness


async def echo(task: Task) -> object:
    return task.payload


async def test_backpressure_is_a_typed_answer(queue: TaskQueue) -> None:
    queue.register_handler("echo", echo)
    async with harness(queue, max_depth=10) as h:
        await queue.pause_queue()
        answers = [(await queue.enqueue("echo")).pressure for _ in range(10)]
        assert answers == [Pressure.ACCEPTED] * 8 + [Pressure.UNDER_PRESSURE] * 2
        with pytest.raises(QueueFull, match="depth bound"):
            await queue.enqueue("echo")
        with pytest.raises(QueueFull):
            await queue.enqueue_many([{"type": "echo"}] * 2)
        assert len(await h.tasks()) == 10
        await queue.resume_queue()
        await h.run_until_idle()
        assert (await queue.enqueue("echo")).pressure is Pressure.ACCEPTED


async def test_a_full_queue_answers_a_repeat(queue: TaskQueue) -> None:
    """A producer that lost an answer repeats its request. The task is in the queue already."""
    queue.register_handler("echo", echo)
    async with harness(queue, max_depth=2):
        await queue.pause_queue()
        by_key = await queue.enqueue("echo", idempotency_key="k")
        await queue.enqueue("echo", id="chosen")
        repeated = await queue.enqueue("echo", idempotency_key="k")
        assert (repeated.id, repeated.created) == (by_key.id, False)
        assert (await queue.enqueue("echo", id="chosen")).created is False
        batch = await queue.enqueue_many([{"type": "echo", "idempotency_key": "k"}])
        assert [handle.id for handle in batch] == [by_key.id]
        with pytest.raises(QueueFull):
            await queue.enqueue("echo", idempotency_key="new")
        with pytest.raises(QueueFull):
            await queue.enqueue_many([{"type": "echo", "idempotency_key": n} for n in ("k", "new")])
        assert len(await queue.parts.tasks.find()) == 2


async def test_backpressure_counts_blocked_tasks(queue: TaskQueue) -> None:
    """Every task that has not started counts, in any waiting status."""
    queue.register_handler("echo", echo)
    async with harness(queue, max_depth=5) as h:
        await queue.pause_queue()
        parent = await queue.enqueue("echo")
        for _ in range(4):
            await queue.enqueue("echo", depends_on=[parent])
        with pytest.raises(QueueFull, match="depth bound: 6 tasks wait"):
            await queue.enqueue("echo", depends_on=[parent])
        await queue.resume_queue()
        await h.run_until_idle()
        assert (await queue.enqueue("echo", depends_on=[parent])).pressure is Pressure.ACCEPTED


async def test_backpressure_by_age(queue: TaskQueue) -> None:
    queue.register_handler("echo", echo)
    async with harness(queue, max_age=60.0) as h:
        await queue.pause_queue()
        await queue.enqueue("echo")
        await h.advance(50)
        assert (await queue.enqueue("echo")).pressure is Pressure.UNDER_PRESSURE
        await h.advance(11)
        with pytest.raises(QueueFull, match="age bound"):
            await queue.enqueue("echo")
