"""Waiting for work on behalf of remote workers."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from holdfast.clock import VirtualClock
from holdfast.core.claiming import Upcoming
from holdfast.gateway.worker.work_news import POLL_SECONDS, WorkNews
from holdfast.store.store import Store


class EmptyStore:
    """A store without tasks."""

    def __init__(self, clock: VirtualClock) -> None:
        self.now = clock.now
        self.backlog = self
        self.looks = 0

    async def next_due(self, queues: object) -> Upcoming:
        self.looks += 1
        return Upcoming(None, None)


async def turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_a_wait_for_work_ends_once_a_poll() -> None:
    """The end of a wait once set the event of the next one, so the store was asked without a pause."""
    clock = VirtualClock()
    store = EmptyStore(clock)
    news = WorkNews(cast("Store", cast("Any", store)), clock, lambda _: lambda: None)
    ended = asyncio.Event()

    async def wait_on() -> None:
        with news.listening(ended) as stir:
            while not ended.is_set():
                stir.clear()
                await asyncio.sleep(0)  # The claim.
                await news.wait(("default",), stir, ended, 30.0)

    waiting = asyncio.create_task(wait_on())
    for polls in range(1, 4):
        await turns()
        assert store.looks == polls
        clock.set(clock.now() + POLL_SECONDS)
    ended.set()
    await waiting
