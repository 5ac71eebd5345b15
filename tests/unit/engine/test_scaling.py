"""The number of workers: by load, and by hand."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, strategies as st

from holdfast import Task, TaskQueue
from holdfast.core import capacity
from holdfast.core.capacity import WorkerBounds
from holdfast.errors import NotRunning
from holdfast.testing import harness


async def test_the_pool_grows_with_work_and_shrinks_after_quiet(queue: TaskQueue) -> None:
    async with harness(queue, min_workers=2, max_workers=6) as h:
        gate = asyncio.Event()

        async def hold(task: Task) -> None:
            await gate.wait()

        queue.register_handler("hold", hold, timeout=1000.0)
        assert h.engine.pool.workers == 2
        for _ in range(10):
            await queue.enqueue("hold")
        await h.run_until_idle()
        assert (h.engine.pool.workers, h.engine.pool.busy) == (6, 6)
        gate.set()
        await h.run_until_idle()
        assert len(await h.tasks(status="completed")) == 10
        await h.advance(9)
        assert h.engine.pool.workers == 6
        await h.advance(3)
        assert h.engine.pool.workers == 2


async def test_a_pool_at_rest_is_looked_at_again_when_it_gets_work(queue: TaskQueue) -> None:
    async with harness(queue, min_workers=2, max_workers=6) as h:
        pool, looks = h.engine.pool, list[float]()

        async def wait() -> None:
            await pool.end_of_rest()
            looks.append(h.clock.now())

        async def work(task: Task) -> None: ...

        queue.register_handler("work", work)
        waiting = asyncio.create_task(wait())
        await h.advance(60)
        assert not looks
        await queue.enqueue("work")
        await h.run_until_idle()
        assert looks
        waiting = asyncio.create_task(wait())
        await h.advance(60)
        assert not waiting.done()
        pool.resize(2)
        await h.advance(1)
        assert waiting.done()


async def test_an_operator_scales_by_hand(queue: TaskQueue) -> None:
    with pytest.raises(NotRunning):
        await queue.scale_workers(1)
    async with harness(queue, min_workers=1, max_workers=4) as h:
        assert await queue.scale_workers(5) == 6
        await h.run_until_idle()
        assert await queue.scale_workers(-4) == 2
        await h.run_until_idle()
        assert h.engine.pool.workers == 2
        assert await queue.scale_workers(-1) == 1
        assert (h.engine.pool.minimum, h.engine.pool.maximum) == (1, 4), "as configured"


async def test_scaling_adds_to_the_current_workers_and_load_does_not_exceed_it(
    queue: TaskQueue,
) -> None:
    gate = asyncio.Event()
    async with harness(queue, min_workers=1, max_workers=3) as h:

        async def hold(task: Task) -> None:
            await gate.wait()

        queue.register_handler("hold", hold, timeout=1000.0)
        for _ in range(40):
            await queue.enqueue("hold")
        await h.run_until_idle()
        assert h.engine.pool.busy == 3
        assert await queue.scale_workers(2) == 5, "load had grown the pool to three"
        assert h.engine.dispatcher.is_woken, "there may be work for them"
        await h.run_until_idle()
        assert h.engine.pool.busy == 5
        assert await queue.scale_workers(-2) == 3
        gate.set()
        await h.run_until_idle()
        assert h.engine.pool.workers == 3
        gate.clear()
        for _ in range(40):
            await queue.enqueue("hold")
        await h.run_until_idle()
        assert h.engine.pool.busy == 3, "max_workers has not changed"
        gate.set()


async def test_workers_that_were_just_added_can_be_removed(queue: TaskQueue) -> None:
    async with harness(queue, min_workers=1, max_workers=3) as h:
        assert await queue.scale_workers(50) == 51
        assert await queue.scale_workers(-100) == 1
        await h.run_until_idle()
        assert h.engine.pool.workers == 1


async def test_removed_workers_do_not_come_back(
    queue: TaskQueue,
) -> None:
    gate = asyncio.Event()
    async with harness(queue, min_workers=4, max_workers=8) as h:

        async def hold(task: Task) -> None:
            await gate.wait()

        queue.register_handler("hold", hold, timeout=1000.0)
        assert await queue.scale_workers(-2) == 2
        for _ in range(10):
            await queue.enqueue("hold")
        await h.advance(30)
        assert h.engine.pool.busy == 2
        assert await queue.scale_workers(2) == 4
        await h.run_until_idle()
        assert h.engine.pool.busy == 8, "as configured"
        gate.set()


@given(
    low=st.integers(1, 8),
    more=st.integers(0, 8),
    wishes=st.lists(st.integers(-30, 30), min_size=1, max_size=8),
)
def test_scaling_stays_within_bounds(low: int, more: int, wishes: list[int]) -> None:
    configured = WorkerBounds(low, low + more)
    current, so_far = low, 0
    for by in wishes:
        scaled = capacity.scaled(current=current, by=by, so_far=so_far, configured=configured)
        assert scaled.target == max(1, current + by)
        assert 1 <= scaled.bounds.minimum <= scaled.bounds.maximum
        assert scaled.bounds.maximum <= max(configured.maximum, scaled.target)
        current, so_far = scaled.target, scaled.so_far
    back = capacity.scaled(current=current, by=-so_far, so_far=so_far, configured=configured)
    assert (back.so_far, back.target, back.bounds) == (0, low, configured)


async def test_workers_that_are_added_get_work_at_once(queue: TaskQueue) -> None:
    gate = asyncio.Event()

    async def hold(task: Task) -> None:
        await gate.wait()

    queue.register_handler("hold", hold)
    async with harness(queue, max_workers=1) as h:
        for _ in range(3):
            await queue.enqueue("hold")
        await h.run_until_idle()
        assert h.engine.pool.busy == 1
        await queue.scale_workers(2)
        await h.run_until_idle()
        assert h.engine.pool.busy == 3
        gate.set()
