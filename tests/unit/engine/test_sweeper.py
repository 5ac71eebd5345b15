"""The sweeper in virtual time."""

from __future__ import annotations

import pytest

from holdfast import TaskQueue
from holdfast.engine import sweeper
from holdfast.testing import harness


async def test_pruning_goes_on_at_once_while_there_is_more(
    queue: TaskQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A round is bounded; a load that ends more than that in the time between rounds must not pile up."""
    monkeypatch.setattr(sweeper, "PRUNE_BITE", 2)
    monkeypatch.setattr(sweeper, "BITES_MAX", 2)

    @queue.task
    async def work() -> None: ...

    async with harness(queue, keep_done=5.0) as h:
        await queue.enqueue_many([work.request() for _ in range(40)])
        await h.advance(1)
        assert (await queue.get_stats()).completed == 40
        await h.advance(sweeper.PRUNE_SECONDS + 6.0)
        assert (await queue.get_stats()).completed == 0
