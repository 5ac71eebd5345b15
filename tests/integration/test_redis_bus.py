"""Hints through Redis: between processes, after an outage, and with a Redis that never was there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from holdfast.bus.local import LocalBus
from holdfast.bus.port import FEED, WORK
from holdfast.bus.redis import RedisBus
from holdfast.clock import SystemClock
from holdfast.errors import BadConfig
from proof.lab.servers import Redis, free_port

WAIT_SECONDS = 20.0


class Listening:
    """Counts hints, and waits for the next one."""

    def __init__(self) -> None:
        self.hints: list[str] = []
        self._heard = asyncio.Event()

    def __call__(self, hint: str) -> None:
        self.hints.append(hint)
        self._heard.set()

    async def next(self) -> None:
        await asyncio.wait_for(self._heard.wait(), WAIT_SECONDS)
        self._heard.clear()


@asynccontextmanager
async def bus_at(url: str) -> AsyncIterator[RedisBus]:
    bus = RedisBus(url, LocalBus(), SystemClock())
    await bus.start()
    try:
        yield bus
    finally:
        await bus.stop()


async def test_a_hint_reaches_every_process(redis_url: str) -> None:
    async with bus_at(redis_url) as one, bus_at(redis_url) as two:
        heard = Listening()
        end = two.subscribe(heard, FEED)
        one.publish(WORK)
        one.committed(one.notify_in_tx(FEED))
        await heard.next()
        assert {*heard.hints} == {FEED}
        assert one.mode().pushing
        end()
        one.publish(FEED)
        other = Listening()
        two.subscribe(other, FEED)
        one.publish(FEED)
        await other.next()
        assert heard.hints == [FEED], "the subscription has ended"


@pytest.mark.parametrize("before", [(), (FEED,)])
async def test_a_stop_sends_the_hints_that_are_left(
    redis_url: str, before: tuple[str, ...]
) -> None:
    """A script or a command ends right after its change."""
    async with bus_at(redis_url) as stays:
        first, heard = Listening(), Listening()
        stays.subscribe(first, FEED)
        stays.subscribe(heard, WORK)
        async with bus_at(redis_url) as ends:
            for topic in before:
                ends.publish(topic)
                await first.next()
            ends.publish(WORK)
        await heard.next()


async def test_listeners_look_again_after_an_outage() -> None:
    with Redis() as server:
        async with bus_at(server.url) as bus:
            heard = Listening()
            bus.subscribe(heard, FEED)
            server.kill()
            server.start()
            await heard.next()
            async with bus_at(server.url) as other:
                heard.hints.clear()
                other.publish(FEED)
                await heard.next()


async def test_without_redis_the_other_bus_serves() -> None:
    url = f"redis://127.0.0.1:{free_port()}"
    async with bus_at(url) as bus:
        heard = Listening()
        bus.subscribe(heard, WORK)
        bus.publish(WORK)
        assert heard.hints == [WORK]
        assert bus.mode().pushing, "a bus within the process needs no Redis"


@pytest.mark.parametrize("url", ["redis://h:99999999", "http://x", ""])
def test_a_bad_url_is_refused(url: str) -> None:
    with pytest.raises(BadConfig):
        RedisBus(url, LocalBus(), SystemClock())


@pytest.mark.parametrize("call", ["_publish", "_next"])
async def test_a_stop_ends_when_the_client_swallows_the_cancellation(
    redis_url: str, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call of the Redis client that is cancelled may end with an error of the connection instead."""
    waits = asyncio.Event()

    async def swallow(*_: object) -> None:
        waits.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise ConnectionError("the connection was closed") from None

    bus = RedisBus(redis_url, LocalBus(), SystemClock())
    await bus.start()
    monkeypatch.setattr(bus, call, swallow)
    bus.publish(FEED)
    await asyncio.wait_for(waits.wait(), WAIT_SECONDS)
    await asyncio.wait_for(bus.stop(), WAIT_SECONDS)
