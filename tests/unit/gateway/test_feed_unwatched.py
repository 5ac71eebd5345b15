"""A feed without subscribers: events stay in the store, listeners are still called, and nothing is missed by
a subscription that starts meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from holdfast.clock import VirtualClock
from holdfast.core.event import Position
from holdfast.gateway.feed.broadcaster import SKIM_SECONDS, WATCHED_SECONDS, Broadcaster
from holdfast.store.feed import Reset, Skimmed
from tests.feed_support import ScriptedFeed
from tests.unit.gateway.test_feed_model import Watcher, World


class SlowFeed(ScriptedFeed):
    """Waits before it answers a skim."""

    def __init__(self) -> None:
        super().__init__()
        self.started, self.go_on = asyncio.Event(), asyncio.Event()

    async def skim(self, after: Position, limit: int, prefixes: Collection[str]) -> Skimmed | Reset:
        answer = await super().skim(after, limit, prefixes)
        self.started.set()
        await self.go_on.wait()
        return answer


async def test_without_subscribers_no_event_is_read() -> None:
    world = World()
    world.broadcaster.bounds = await world.feed.bounds()
    world.commit([("a", 0), ("b", 1)])
    assert await world.broadcaster.read_page() is False
    assert (world.feed.pages, world.feed.skims) == (0, 1)
    assert world.broadcaster.head == world.broadcaster.boundary == world.feed.head == 2


async def test_listeners_are_called_for_their_kinds_only() -> None:
    feed, clock = ScriptedFeed(), VirtualClock()
    broadcaster = Broadcaster(feed, feed.bus, clock)
    broadcaster.bounds = await feed.bounds()
    calls: list[str] = []
    broadcaster.listen("token.", lambda: calls.append("token"))
    broadcaster.listen("intervention.issued", lambda: calls.append("intervention"))
    feed.commit("task.started", "token.revoked")
    await broadcaster.read_page()
    assert calls == ["token"]
    feed.commit("task.started")
    await broadcaster.read_page()
    assert calls == ["token"]


async def test_a_subscription_that_starts_during_a_skim_misses_nothing() -> None:
    world = World()
    feed = world.broadcaster.source = world.feed = SlowFeed()
    world.broadcaster.bounds = await feed.bounds()
    world.commit([("a", 0)])
    skim = asyncio.create_task(world.broadcaster.read_page())
    await feed.started.wait()
    watcher = Watcher(world, "project:default")
    world.watchers = [watcher]
    await watcher.connect()
    await world.settle()
    feed.go_on.set()
    assert await skim is True
    await world.finish()
    assert (watcher.start, watcher.events) == (0, [1])
    await watcher.disconnect()


async def test_the_ring_is_filled_for_clients_that_reconnect() -> None:
    world = World()
    world.broadcaster.bounds = await world.feed.bounds()
    watcher = Watcher(world, "project:default")
    await watcher.connect()
    await world.settle()
    await world.broadcaster.read_page()
    await watcher.disconnect()
    world.commit([("a", 0)])
    await world.broadcaster.read_page()
    assert len(world.broadcaster.ring) == 1
    world.clock.set(world.clock.now() + WATCHED_SECONDS)
    world.commit([("a", 0)])
    await world.broadcaster.read_page()
    assert (len(world.broadcaster.ring), world.feed.skims) == (0, 1)


async def test_without_subscribers_a_stream_of_events_is_looked_at_in_intervals() -> None:
    """The first event is looked at once, and a caller that needs the newest events does not wait."""
    feed, clock = ScriptedFeed(), VirtualClock()
    broadcaster = Broadcaster(feed, feed.bus, clock)

    async def committed() -> int:
        """The offset that was reached some turns of the event loop after a commit."""
        feed.commit("task.started")
        for _ in range(30):
            await asyncio.sleep(0)
        return broadcaster.head

    await broadcaster.start()
    assert [await committed(), await committed(), await committed()] == [1, 1, 1]
    clock.set(clock.now() + SKIM_SECONDS)
    assert await committed() == 4
    await broadcaster.refresh()
    feed.commit("task.started")
    await broadcaster.refresh()
    assert broadcaster.head == 5
    await broadcaster.stop()
