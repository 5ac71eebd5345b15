"""Credentials of agents that end about when a poll begins."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import cast

import pytest

from holdfast.clock import SystemClock, VirtualClock
from holdfast.errors import StoreUnavailable
from holdfast.gateway.auth.agents import AGAIN_SECONDS, LOOK_SECONDS, PAUSE_FACTOR, AgentCredentials
from holdfast.sync.access.tokens import Tokens

SECONDS = 20.0


class FakeTokens:
    """Of all credentials, those of `ended` count no more."""

    def __init__(self) -> None:
        self.ended: set[str] = set()
        self.looks: list[list[str]] = []
        self.looked = asyncio.Event()
        self.failures: list[Exception] = []
        """Of the next looks."""
        self.look: Callable[[], object] = lambda: None
        """Called by each look."""

    async def valid(self, digests: Sequence[str]) -> set[str]:
        self.looks.append(list(digests))
        self.looked.set()
        self.look()
        if self.failures:
            raise self.failures.pop()
        return set(digests) - self.ended


async def test_a_poll_that_begins_after_the_look_is_looked_at() -> None:
    """Its request was let in before the credential ended, and came to the door after the look."""
    tokens, lost = FakeTokens(), asyncio.Event()
    credentials = AgentCredentials(cast(Tokens, tokens), SystemClock())
    running = asyncio.create_task(credentials.run())
    with credentials.watching("other", lambda: None):
        tokens.ended.add("late")
        credentials.soon()
        await asyncio.wait_for(tokens.looked.wait(), SECONDS)
        with credentials.watching("late", lost.set) as late:
            await asyncio.wait_for(lost.wait(), SECONDS)
            assert late.is_lost
    assert tokens.looks == [["other"], ["late"]]
    running.cancel()


async def test_a_poll_without_a_change_costs_no_look() -> None:
    tokens = FakeTokens()
    credentials = AgentCredentials(cast(Tokens, tokens), SystemClock())
    running = asyncio.create_task(credentials.run())
    with credentials.watching("one", lambda: None):
        for _ in range(10):
            await asyncio.sleep(0)
    assert tokens.looks == []
    running.cancel()


class ObservedClock(VirtualClock):
    """A clock that says for how long its users wait."""

    def __init__(self) -> None:
        super().__init__()
        self.pauses = asyncio.Queue[float]()

    async def wait(self, event: asyncio.Event, seconds: float) -> bool:
        self.pauses.put_nowait(seconds)
        return await super().wait(event, seconds)


@pytest.mark.parametrize("failure", [StoreUnavailable("away"), RuntimeError("a fault")])
async def test_a_look_that_failed_is_made_again_soon(failure: Exception) -> None:
    """The change may have been its only hint."""
    tokens, lost, clock = FakeTokens(), asyncio.Event(), ObservedClock()
    credentials = AgentCredentials(cast(Tokens, tokens), clock)
    tokens.failures = [failure]
    running = asyncio.create_task(credentials.run())
    with credentials.watching("one", lost.set):
        assert await asyncio.wait_for(clock.pauses.get(), SECONDS) == LOOK_SECONDS
        tokens.ended.add("one")
        credentials.soon()
        assert await asyncio.wait_for(clock.pauses.get(), SECONDS) == AGAIN_SECONDS
        assert not lost.is_set()
        clock.set(clock.now() + AGAIN_SECONDS)
        await asyncio.wait_for(lost.wait(), SECONDS)
    assert await asyncio.wait_for(clock.pauses.get(), SECONDS) == LOOK_SECONDS
    running.cancel()


async def test_looks_take_a_share_of_the_time_while_many_hosts_change() -> None:
    tokens, clock = FakeTokens(), ObservedClock()
    credentials = AgentCredentials(cast(Tokens, tokens), clock)

    def slow() -> None:
        clock.pause(1.0)
        credentials.soon()

    tokens.look = slow
    running = asyncio.create_task(credentials.run())
    with credentials.watching("one", lambda: None):
        assert await asyncio.wait_for(clock.pauses.get(), SECONDS) == LOOK_SECONDS
        credentials.soon()
        assert await asyncio.wait_for(clock.pauses.get(), SECONDS) == PAUSE_FACTOR
        assert len(tokens.looks) == 1
        clock.set(clock.now() + PAUSE_FACTOR)
        assert await asyncio.wait_for(clock.pauses.get(), SECONDS) == LOOK_SECONDS
        assert await asyncio.wait_for(clock.pauses.get(), SECONDS) == PAUSE_FACTOR
        assert len(tokens.looks) == 2
    running.cancel()
