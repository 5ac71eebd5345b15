"""The bound of a queue holds for callers that enqueue at the same time in one process."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from typing import Any

import pytest

from holdfast import TaskQueue
from holdfast.errors import QueueFull

BOUND = 50
CALLERS = 200


def queue_of(url: str) -> TaskQueue:
    queue = TaskQueue(url, max_depth=BOUND)

    @queue.task
    async def noop(n: int = 0) -> None:
        pass

    return queue


async def outcomes(calls: Iterable[Awaitable[object]]) -> tuple[int, int]:
    """How many calls were accepted, and how many were refused because the queue was full."""
    answers = await asyncio.gather(*calls, return_exceptions=True)
    refused = [answer for answer in answers if isinstance(answer, BaseException)]
    assert {type(error) for error in refused} <= {QueueFull}
    return len(answers) - len(refused), len(refused)


@pytest.mark.parametrize("before", [0, 5], ids=["first-look", "known-backlog"])
async def test_callers_at_once_stay_within_the_bound(url: str, before: int) -> None:
    queue = queue_of(url)
    async with queue.producer():
        for n in range(before):
            await queue.enqueue("noop", {"n": n})
        accepted, refused = await outcomes(queue.enqueue("noop") for _ in range(CALLERS))
        assert (accepted, refused) == (BOUND - before, CALLERS - accepted)
        assert await queue.get_queue_size() == BOUND


async def test_lists_at_once_stay_within_the_bound(url: str) -> None:
    queue = queue_of(url)
    async with queue.producer():
        lists: list[list[dict[str, Any]]] = [[{"type": "noop", "payload": {}}] * 20] * 10
        assert await outcomes(map(queue.enqueue_many, lists)) == (2, 8)
        assert await queue.get_queue_size() == 40


async def test_what_was_not_inserted_does_not_count(url: str) -> None:
    """Callers that are cancelled, and a list that one of its queues refuses, leave room for others."""
    queue = queue_of(url)
    async with queue.producer():
        await queue.enqueue("noop")  # The next ones need no look at the store.
        calls = [asyncio.create_task(queue.enqueue("noop", tags=["late"])) for _ in range(10)]
        await asyncio.sleep(0)
        for call in calls:
            call.cancel()
        await asyncio.wait(calls)
        free = BOUND - await queue.get_queue_size()
        too_many = [{"type": "noop", "payload": {}, "queue": "other"}] * (BOUND + 1)
        with pytest.raises(QueueFull, match="'other'"):
            await queue.enqueue_many([{"type": "noop", "payload": {}}, *too_many])
        await queue.enqueue_many([{"type": "noop", "payload": {}}] * free)
        assert await queue.get_queue_size() == BOUND
