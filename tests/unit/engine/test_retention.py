"""What the sweeper prunes, and when, in virtual time."""

from __future__ import annotations

from datetime import timedelta

import pytest

from holdfast import TaskQueue
from holdfast.engine import pruning, sweeper
from holdfast.testing import harness


async def test_pruning_continues_at_once_while_there_is_more(
    queue: TaskQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A round is bounded. If more tasks end between two rounds than one round prunes, they must not pile
    up."""
    monkeypatch.setattr(sweeper, "PRUNE_BATCH", 2)
    monkeypatch.setattr(pruning, "ROUND_BATCHES_MAX", 2)

    @queue.task
    async def work() -> None: ...

    async with harness(queue, keep_done=5.0) as h:
        await queue.enqueue_many([work.request() for _ in range(40)])
        await h.advance(1)
        assert (await queue.get_stats()).completed == 40
        await h.advance(pruning.PRUNE_SECONDS + 6.0)
        assert (await queue.get_stats()).completed == 0


async def test_a_type_has_its_own_retention(queue: TaskQueue) -> None:
    @queue.task(keep_done=timedelta(minutes=5))
    async def short() -> None: ...

    @queue.task(keep_done=3 * 3_600)
    async def long() -> None: ...

    @queue.task
    async def usual() -> None: ...

    async def left() -> set[str]:
        return {task.type for task in await queue.find_tasks()}

    async with harness(queue, keep_done=3_600.0) as h:
        await queue.enqueue_many([short.request(), long.request(), usual.request()])
        await h.advance(200)
        assert await left() == {"short", "long", "usual"}
        await h.advance(300)
        assert await left() == {"long", "usual"}
        await h.advance(3_600)
        assert await left() == {"long"}
        await h.advance(3 * 3_600)
        assert await left() == set()
