"""A store with a high latency: optional queries must not delay claims."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import Task, TaskQueue
from holdfast.core.claiming import Claimed
from holdfast.testing import harness

ROUND_TRIP_SECONDS = 0.5
TASKS = 400


async def test_searches_without_an_aged_task_take_a_small_part_of_the_time(
    queue: TaskQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    spent = {"claim": 0.0, "claim_aged": 0.0}
    async with harness(queue, max_workers=10) as h:
        assert queue.parts.sessions.here.backend is not None
        store = queue.parts.sessions.here.backend.store
        claim = store.claim

        def far(verb: str) -> None:
            spent[verb] += ROUND_TRIP_SECONDS
            h.clock.set(h.clock.now() + ROUND_TRIP_SECONDS)

        async def claim_far(*args: Any, **kwargs: Any) -> Claimed:
            far("claim")
            return await claim(*args, **kwargs)

        async def claim_aged_far(*_args: Any, **_kwargs: Any) -> Claimed:
            far("claim_aged")
            return Claimed([])

        async def work(task: Task) -> None:
            pass

        queue.register_handler("work", work)
        await queue.pause_queue()
        await queue.enqueue_many([{"type": "work"}] * TASKS)
        monkeypatch.setattr(store, "claim", claim_far)
        monkeypatch.setattr(store, "claim_aged", claim_aged_far)
        await queue.resume_queue()
        await h.run_until_idle()
        assert (await queue.get_stats()).completed == TASKS
    assert 0 < spent["claim_aged"] <= spent["claim"] / 5


async def test_looking_at_limits_takes_a_small_part_of_the_time(
    queue: TaskQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While claims get all that they ask for and no task waits at a limit."""
    spent = {"claim": 0.0, "open_gates": 0.0}
    async with harness(queue, max_workers=10) as h:
        assert queue.parts.sessions.here.backend is not None
        store = queue.parts.sessions.here.backend.store
        claim, open_gates = store.claim, store.open_gates

        def far(verb: str, round_trips: int) -> None:
            spent[verb] += round_trips * ROUND_TRIP_SECONDS
            h.clock.set(h.clock.now() + round_trips * ROUND_TRIP_SECONDS)

        async def claim_far(*args: Any, **kwargs: Any) -> Claimed:
            far("claim", 1)
            return await claim(*args, **kwargs)

        async def open_gates_far() -> tuple[int, float | None]:
            far("open_gates", 4)
            return await open_gates()

        async def work(task: Task) -> None:
            pass

        queue.register_handler("work", work)
        await queue.pause_queue()
        await queue.enqueue_many([{"type": "work"}] * TASKS)
        monkeypatch.setattr(store, "claim", claim_far)
        monkeypatch.setattr(store, "open_gates", open_gates_far)
        await queue.resume_queue()
        await h.run_until_idle()
        assert (await queue.get_stats()).completed == TASKS
    assert 0 < spent["open_gates"] <= spent["claim"] / 3
