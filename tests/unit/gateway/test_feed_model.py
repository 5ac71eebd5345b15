"""Every subscriber gets each event once and in order, over any interleaving of commits, reads, slow clients,
disconnects and reconnects with a position. The broadcaster and the connections are the product's own; the
sockets are buffers that the test empties.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest
from hypothesis import example, given, settings, strategies as st

from holdfast.clock import VirtualClock
from holdfast.core.channel import parse_channel
from holdfast.core.subscription import FlowBounds
from holdfast.gateway.feed import broadcaster as broadcaster_module, reading
from holdfast.gateway.feed.broadcaster import Broadcaster
from holdfast.gateway.feed.connection import WS, Connection
from holdfast.gateway.feed.frames import as_message
from holdfast.gateway.feed.subscribing import Wish, subscribe
from tests.feed_support import Badge, Door, ScriptedDirectory, ScriptedFeed, person

PAGE: Final = 4
FLOW: Final = FlowBounds(high_bytes=1_500, low_bytes=400)
CHANNELS: Final = ("project:default", "project:default", "project:default", "task:a", "node:n1")
FRAME_BYTES: Final = 340
"""No frame of this test is longer."""
KINDS: Final = ("task.started", "task.progress", "task.output", "task.metrics")
Frame = dict[str, Any]


class Buffer:
    """An `Outlet` that the test empties."""

    def __init__(self) -> None:
        self.frames: deque[bytes] = deque()
        self.size = 0
        self.connection: Connection
        self.closed: int | None = None
        self.most = 0

    def write(self, data: bytes) -> None:
        was_full = self.size > FLOW.high_bytes
        self.frames.append(data)
        self.size += len(data)
        if not is_control(data):
            self.most = max(self.most, self.size)
        if self.size > FLOW.high_bytes and not was_full:
            self.connection.full()

    def buffered(self) -> int:
        return self.size

    def close(self, code: int, reason: str) -> None:
        del reason
        self.closed = code

    def drain(self, count: int) -> list[bytes]:
        taken = []
        was_high = self.size > FLOW.low_bytes
        while self.frames and count:
            taken.append(self.frames.popleft())
            self.size -= len(taken[-1])
            count -= 1
        if was_high and self.size <= FLOW.low_bytes:
            self.connection.drained()
        return taken


def is_control(data: bytes) -> bool:
    return data.startswith((b'{"type":"subscribed"', b'{"type":"snapshot"', b'{"type":"bookmark"'))


def parse(data: bytes) -> Iterator[Frame]:
    """The frames in one write."""
    return map(json.loads, data.decode().splitlines())


class Watcher:
    """A client that remembers what it got, and reconnects from its position."""

    def __init__(self, world: World, channel: str) -> None:
        self.world = world
        self.channel = channel
        self.events: list[int] = []
        self.start: int | None = None
        self.last: int | None = None
        self.buffer = Buffer()
        self.connection: Connection | None = None
        self.resets: list[str] = []

    async def connect(self) -> None:
        if self.buffer.closed is not None:
            await self.disconnect()
        if self.connection is not None:
            return
        self.buffer = Buffer()
        self.connection = Connection(
            self.world.broadcaster,
            self.world.directory,
            Badge(self.world.door, "ann"),
            self.buffer,
            wrap=as_message,
            transport=WS,
            bounds=FLOW,
        )
        self.buffer.connection = self.connection
        self.connection.open()
        position = None if self.last is None else f"e1:{self.last}"
        channel = parse_channel(self.channel)
        wish = Wish((channel,), "s", self.channel, position=position, snapshot=position is None)
        self.world.spawn(subscribe(self.connection, wish))

    async def disconnect(self) -> None:
        if self.connection is not None:
            await self.connection.shut()
            self.connection = None

    def read(self, count: int) -> None:
        for data in self.buffer.drain(count):
            for frame in parse(data):
                self.take(frame)

    def take(self, frame: Frame) -> None:
        kind = frame["type"]
        if kind == "reset":
            self.resets.append(frame["reason"])
            return
        if kind == "subscribed":
            offset = int(frame["position"].partition(":")[2])
            if self.start is None:
                self.start = self.last = offset
            assert offset == self.last
            return
        if kind in {"snapshot", "bye"}:
            return
        offset = int(frame["position"].partition(":")[2])
        assert int(frame["prev"].partition(":")[2]) == self.last, "the chain is broken"
        assert self.last is not None
        if kind == "bookmark":
            assert offset >= self.last
            assert offset in self.world.boundaries, "a bookmark splits a transaction"
        else:
            assert offset > self.last
            self.events.append(offset)
        self.last = offset


class World:
    def __init__(self) -> None:
        self.feed = ScriptedFeed()
        self.clock = VirtualClock()
        self.directory = ScriptedDirectory()
        self.door = Door(person())
        self.broadcaster = Broadcaster(self.feed, self.feed.bus, self.clock, ring_events=6)
        self.watchers = [Watcher(self, channel) for channel in CHANNELS]
        self.boundaries = {0}
        self.tasks: list[asyncio.Task[Any]] = []
        self.ends: dict[str, int] = {}

    def spawn(self, work: Any) -> None:
        self.tasks.append(asyncio.create_task(work))

    async def settle(self) -> None:
        for _ in range(30):
            await asyncio.sleep(0)

    def commit(self, tasks: list[tuple[str, int]]) -> None:
        for task, kind in tasks:
            data: dict[str, Any] = {"node": "n1"} if task == "a" else {}
            if KINDS[kind] == "task.output":
                start = self.ends.get(task, 0)
                self.ends[task] = start + 1
                data |= {"stream": "stdout", "fence": 1, "start": start, "size": 1, "data": "x"}
            self.feed.commit(KINDS[kind], task=task, hint=False, **data)
        self.boundaries.add(self.feed.head)

    async def finish(self) -> None:
        """Everything is read and delivered."""
        for _ in range(200):
            for watcher in self.watchers:
                await watcher.connect()
            await self.broadcaster.read_page()
            self.clock.set(self.clock.now() + 1.0)
            self.broadcaster.tick(self.clock.monotonic())
            await self.settle()
            for watcher in self.watchers:
                watcher.read(1_000)
            if all(watcher.last == self.feed.head for watcher in self.watchers):
                return
            # A bookmark tells each client where the feed ends.
            self.clock.set(self.clock.now() + 15.0)
        raise AssertionError("a subscriber did not reach the end of the feed")


records = st.lists(st.tuples(st.sampled_from("aabc"), st.integers(0, 3)), min_size=1, max_size=6)
number = st.integers(0, len(CHANNELS) - 1)
steps = st.one_of(
    st.tuples(st.just("live"), records),
    st.tuples(st.just("commit"), records),
    st.tuples(st.just("read"), st.tuples(number, st.integers(1, 9))),
    st.tuples(st.just("reconnect"), st.tuples(number, st.booleans())),
    st.tuples(st.just("connect"), st.tuples(number, st.booleans())),
    st.tuples(st.just("disconnect"), st.tuples(number, st.booleans())),
    st.tuples(st.just("tick"), st.sampled_from([0.05, 0.3, 1.0, 16.0])),
    st.just(("page", None)),
    st.just(("leave", None)),
    st.just(("settle", None)),
)


@contextmanager
def small_pages() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(broadcaster_module, "PAGE_EVENTS", PAGE)
        patch.setattr(reading, "PAGE_EVENTS", PAGE)
        patch.setattr(broadcaster_module, "SKIM_EVENTS", PAGE)
        patch.setattr(broadcaster_module, "WATCHED_SECONDS", 0.0)
        yield


@given(st.lists(steps, min_size=5, max_size=50))
@example(
    [
        *(("live", [("a", 0)]), ("live", [("a", 0)]), ("live", [("a", 0), ("a", 0), ("a", 2)])),
        *(("commit", [("a", 0)]), ("reconnect", (0, True))),
    ]
)
@example(
    [
        *(("live", [("a", 0)]), ("leave", None), ("live", [("a", 0)] * 6), ("connect", (0, True))),
        *(("commit", [("a", 0)]), ("page", None), ("connect", (1, False))),
    ]
)
@settings(max_examples=300)
def test_no_event_twice_or_skipped(script: list[tuple[str, Any]]) -> None:
    with small_pages():
        asyncio.run(play(script))


async def play(script: list[tuple[str, Any]]) -> None:
    world = World()
    world.broadcaster.bounds = await world.feed.bounds()
    for watcher in world.watchers:
        await watcher.connect()
    await world.settle()
    for step, value in script:
        await act(world, step, value)
    await world.finish()
    for watcher in world.watchers:
        assert watcher.resets == []
        check(world, watcher)
        await watcher.disconnect()
    for task in world.tasks:
        task.cancel()
    await asyncio.gather(*world.tasks, return_exceptions=True)


async def act(world: World, step: str, value: Any) -> None:
    match step:
        case "live":
            world.commit(value)
            await world.broadcaster.read_page()
        case "commit":
            world.commit(value)
        case "page":
            await world.broadcaster.read_page()
        case "tick":
            world.clock.set(world.clock.now() + value)
            world.broadcaster.tick(world.clock.monotonic())
        case "settle":
            await world.settle()
        case "leave":
            for watcher in world.watchers:
                await watcher.disconnect()
        case "read":
            world.watchers[value[0]].read(value[1])
        case _:
            watcher = world.watchers[value[0]]
            if step != "connect":
                await watcher.disconnect()
            if step != "disconnect":
                await watcher.connect()
            if value[1]:
                await world.settle()


def check(world: World, watcher: Watcher) -> None:
    assert watcher.start is not None
    # One write has at most a page and what waited to be merged.
    assert watcher.buffer.most <= FLOW.high_bytes + 2 * PAGE * FRAME_BYTES
    expected, merged = [], set()
    for event in world.feed.events:
        topics = {f"task:{event.task_id}", "project:default", f"node:{event.data.get('node')}"}
        if event.position.offset > watcher.start and watcher.channel in topics:
            expected.append(event.position.offset)
            if event.kind in {"task.output", "task.metrics"}:
                merged.add(event.position.offset)
    assert set(watcher.events) <= set(expected)
    assert set(expected) - set(watcher.events) <= merged, "an event is missing"
    assert watcher.events == sorted(set(watcher.events))
