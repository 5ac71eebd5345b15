"""A caller that waits for a gateway: its patience is one time, from the first request to the last."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.client.http import Http, fresh_ids
from holdfast.client.patience import patiently
from holdfast.clock import VirtualClock
from holdfast.core.errors import GatewayUnavailable
from holdfast.errors import NotFound


@pytest.fixture
def http(clock: VirtualClock) -> Http:
    http = Http(["http://127.0.0.1:1"], None, clock, fresh_ids())
    http.on_retry = lambda text: None
    return http


async def test_a_request_that_is_not_answered_ends_with_the_patience(http: Http) -> None:
    """A frozen gateway: the bounds of the tries of a long poll are longer than the patience."""
    with pytest.raises(GatewayUnavailable, match="accepts connections and does not answer"):
        await patiently(http, asyncio.Event().wait, 0.05)


async def test_the_time_of_a_failed_request_counts(http: Http, clock: VirtualClock) -> None:
    requests = 0

    async def slow() -> None:
        nonlocal requests
        requests += 1
        clock.set(clock.now() + 80.0)
        raise GatewayUnavailable("gone")

    with pytest.raises(GatewayUnavailable, match="gone"):
        await patiently(http, slow, 60.0)
    assert requests == 1


async def test_without_patience_a_request_is_not_cut_short(http: Http) -> None:
    async def answers() -> str:
        await asyncio.sleep(0)
        return "answer"

    assert await patiently(http, answers, 0.0) == "answer"
    assert await patiently(http, answers, None) == "answer"


async def test_a_timeout_of_the_request_itself_is_no_end_of_patience(http: Http) -> None:
    async def fails() -> None:
        raise TimeoutError("of the caller")

    with pytest.raises(TimeoutError, match="of the caller"):
        await patiently(http, fails, 60.0)


async def test_a_refusal_ends_the_wait(http: Http) -> None:
    async def refused() -> None:
        raise NotFound("no such task")

    with pytest.raises(NotFound):
        await patiently(http, refused, 60.0)
