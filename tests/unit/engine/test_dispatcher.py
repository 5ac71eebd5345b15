"""Which tasks start, and when: free workers, priority, ageing, limits."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast import Task, TaskQueue
from holdfast.core.priority import AGED_EVERY
from holdfast.store.store import Claimed
from holdfast.testing import harness


async def test_a_task_that_becomes_due_during_a_claim_is_claimed_at_once(
    queue: TaskQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock of the producer may be a little ahead of the dispatcher's. The next poll is seconds away."""

    @queue.task
    async def work() -> None: ...

    async with harness(queue) as h:
        store, dispatcher = h.engine.basis.store, h.engine.dispatcher
        await h.run_until_idle()
        claim = store.claim

        async def slow_claim(*args: Any, **kwargs: Any) -> Claimed:
            claimed = await claim(*args, **kwargs)
            h.clock.set(h.clock.now() + 0.01)
            return claimed

        monkeypatch.setattr(store, "claim", slow_claim)
        await work.options(delay=0.005).enqueue()
        dispatcher.wake()
        assert await dispatcher.step() == 0.0


async def test_workers_that_became_free_while_tasks_waited_get_work_at_once(
    queue: TaskQueue,
) -> None:
    """One worker runs short tasks. Then the last claimed task is a long one."""
    gate = asyncio.Event()

    async def quick(task: Task) -> None: ...

    async def hold(task: Task) -> None:
        await gate.wait()

    queue.register_handler("quick", quick)
    queue.register_handler("hold", hold)
    async with harness(queue, max_workers=3) as h:
        await queue.pause_queue()
        for task_type in ("quick", "quick", "hold", "hold", "hold"):
            await queue.enqueue(task_type)
        await queue.resume_queue()
        await h.run_until_idle()
        assert h.engine.pool.busy == 3
        gate.set()


async def test_low_priority_is_never_starved(queue: TaskQueue) -> None:
    starts: list[str] = []
    async with harness(queue, max_workers=1, ageing_seconds=60.0) as h:

        async def note(task: Task) -> None:
            starts.append(task.priority.name.lower())

        queue.register_handler("note", note)
        await queue.pause_queue()
        for _ in range(3):
            await queue.enqueue("note", priority="low")
        await h.advance(61)
        for _ in range(60):
            await queue.enqueue("note", priority="critical")
        await queue.resume_queue()
        await h.run_until_idle()
    places = [n for n, name in enumerate(starts) if name == "low"]
    # The bound: a task with k aged ones before it starts after at most (k + 1) * AGED_EVERY starts.
    assert all(index < (k + 1) * AGED_EVERY for k, index in enumerate(places))
    assert len(starts) == 63
    assert starts.count("critical") == 60


async def test_strict_priority_without_ageing(queue: TaskQueue) -> None:
    starts: list[str] = []
    async with harness(queue, max_workers=1) as h:

        async def note(task: Task) -> None:
            starts.append(task.priority.name.lower())

        queue.register_handler("note", note)
        await queue.pause_queue()
        for priority in ("low", "normal", "critical", "high") * 2:
            await queue.enqueue("note", priority=priority)
        await queue.resume_queue()
        await h.run_until_idle()
    assert starts == [*["critical"] * 2, *["high"] * 2, *["normal"] * 2, *["low"] * 2]


async def test_keys_under_limits_do_not_wait_for_each_other(queue: TaskQueue) -> None:
    running: list[str] = []
    async with harness(queue, max_workers=4, task_timeout=None) as h:
        gate = asyncio.Event()

        async def hold(task: Task) -> None:
            running.append(task.payload)
            await gate.wait()

        queue.register_handler("hold", hold, key_concurrency=1)
        for n in range(20):
            await queue.enqueue("hold", f"a{n}", key="a")
        await queue.enqueue("hold", "b", key="b")
        await h.run_until_idle()
        assert running == ["a0", "b"]
        gate.set()
        await h.run_until_idle()
        assert len(running) == 21


async def test_a_reserved_task_that_a_rate_refuses_starts_when_the_rate_permits(
    queue: TaskQueue,
) -> None:
    """The dispatcher learns when the limit opens, and does not wait for its next poll."""
    starts: list[float] = []
    async with harness(queue) as h:

        async def note(task: Task) -> None:
            starts.append(h.now())

        queue.register_handler("note", note, rate="60/m")
        await queue.enqueue("note")
        await h.run_until_idle()
        second = await queue.enqueue("note")
        node = (await queue.get_nodes())[0].id
        await queue.intervene(second.id, "REASSIGN", "there", args={"to_node": node})
        dispatcher = h.engine.dispatcher
        while dispatcher.is_woken:
            await dispatcher.step()
        await dispatcher.claim_reserved()
        assert dispatcher.is_woken
        await h.advance(1.0)
        assert len(starts) == 2


async def test_a_rate_spreads_starts_over_time(queue: TaskQueue) -> None:
    starts: list[float] = []
    async with harness(queue) as h:

        async def note(task: Task) -> None:
            starts.append(h.now())

        queue.register_handler("note", note, rate="6/m")
        started_at = h.now()
        for _ in range(4):
            await queue.enqueue("note")
        await h.advance(60)
        assert [at - started_at for at in starts] == pytest.approx(
            [0.0, 10.0, 20.0, 30.0], abs=0.01
        )
        assert all(task.attempts == 1 for task in await h.tasks("note"))
