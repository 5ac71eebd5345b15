"""A store with a high latency: optional queries must not delay claims."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from holdfast import Task, TaskQueue
from holdfast.core.claiming import Claimed
from holdfast.testing import harness

ROUND_TRIP_SECONDS = 0.5
TASKS = 400


async def spent_trips(
    queue: TaskQueue, monkeypatch: pytest.MonkeyPatch, **round_trips: int
) -> Counter[str]:
    """Counts the round trips of these verbs of the store while `TASKS` tasks run. `round_trips` says how many
    one call takes. A search for aged tasks finds none."""
    spent: Counter[str] = Counter()
    async with harness(queue, max_workers=10) as h:
        assert queue.parts.sessions.here.resources is not None
        store = queue.parts.sessions.here.resources.store

        def far(verb: str, trips: int) -> None:
            owner = store.backlog if verb == "open_gates" else store
            near = getattr(owner, verb)

            async def call(*args: Any, **kwargs: Any) -> Any:
                spent[verb] += trips
                h.clock.set(h.clock.now() + trips * ROUND_TRIP_SECONDS)
                return Claimed([]) if verb == "claim_aged" else await near(*args, **kwargs)

            monkeypatch.setattr(owner, verb, call)

        async def work(task: Task) -> None:
            pass

        queue.register_handler("work", work)
        await queue.pause_queue()
        await queue.enqueue_many([{"type": "work"}] * TASKS)
        for verb, trips in round_trips.items():
            far(verb, trips)
        await queue.resume_queue()
        await h.run_until_idle()
        assert (await queue.get_stats()).completed == TASKS
    return spent


async def test_searches_without_an_aged_task_take_a_small_part_of_the_time(
    queue: TaskQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    spent = await spent_trips(queue, monkeypatch, claim=1, claim_aged=1)
    assert 0 < spent["claim_aged"] <= spent["claim"] / 5


async def test_looking_at_limits_takes_a_small_part_of_the_time(
    queue: TaskQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While claims get all that they ask for and no task waits at a limit."""
    spent = await spent_trips(queue, monkeypatch, claim=1, open_gates=4)
    assert 0 < spent["open_gates"] <= spent["claim"] / 3
