"""The broadcaster: the one reader of the feed in a gateway, and the lanes that it writes to.

Promises: each event is read, decoded and encoded once for all subscribers. A subscription is either in a lane
or is caught up by its connection, never both, so live events and replayed ones do not interleave. A hint only
wakes the reader: a lost one costs `POLL_SECONDS`. If the reader itself cannot continue, every subscription
gets a reset. Never: waits for a client.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from itertools import cycle
from math import inf
from typing import Final

from holdfast.bus.port import FEED, WORK, Bus
from holdfast.clock import Clock
from holdfast.core.event import Event, Position
from holdfast.core.subscription import FeedBounds, StreamReset
from holdfast.errors import StoreUnavailable
from holdfast.gateway.feed.entries import RING_EVENTS, Entry, Ring
from holdfast.gateway.feed.frames import Style, Wrapping
from holdfast.gateway.feed.lanes import NEVER, Lane, LaneKey, Member
from holdfast.gateway.feed.metrics import FeedMeter
from holdfast.gateway.feed.ports import FeedSource, Prepare, Watched, unchanged
from holdfast.store.feed import Page, Reset, Skimmed

POLL_SECONDS: Final = 1.0
TICK_SECONDS: Final = 0.05
"""The interval in which waiting informational frames and connections are looked at."""
BOOKMARK_SECONDS: Final = 15.0
PAGE_EVENTS: Final = 500
SKIM_EVENTS: Final = 10_000
"""Events that are passed at once while there are no subscribers."""
SKIM_SECONDS: Final = 0.05
"""The shortest time between two looks at new events while there are no subscribers."""
WATCHED_SECONDS: Final = 60.0
"""How long the ring is filled after the last client has gone: clients that reconnect find it there."""
STORE_READERS: Final = 4
"""Pages of old events that are read from the store at the same time."""
log = logging.getLogger("holdfast.feed")

ACCESS_KINDS: Final = ("token.", "node.state", "node.revoked", "node.cloned")
"""Events after which the credentials of open connections are read again."""


class Broadcaster:
    """The feed of one gateway."""

    def __init__(
        self,
        source: FeedSource,
        bus: Bus,
        clock: Clock,
        *,
        prepare: Prepare = unchanged,
        meter: FeedMeter | None = None,
        ring_events: int = RING_EVENTS,
        keep_seconds: float = inf,
    ) -> None:
        self.source = source
        self.clock = clock
        self.meter = meter or FeedMeter()
        self.connections: dict[Watched, None] = {}
        self.full: list[Watched] = []
        """Connections whose buffer passed its high mark during a write."""
        self.lanes: dict[LaneKey, Lane] = {}
        self.ring = Ring(0, events_max=ring_events)
        self.bounds = FeedBounds(Position("", 0), Position("", 0))
        self.boundary = 0
        """The last end of a transaction up to which the broadcaster has read."""
        self.spread = cycle(part / 64 for part in range(16))
        """Parts of a period by which the work of connections is shifted."""
        self.store_slots = asyncio.Semaphore(STORE_READERS)
        self.is_store_away = False
        self.buffered = 0
        """The bytes that all clients together have not taken."""
        self._bus = bus
        self._prepare = prepare
        self._ring_events = ring_events
        self._keep_seconds = keep_seconds
        """How long the store keeps events."""
        self._by_topic: dict[str, list[Lane]] = {}
        self._watched_until = -inf
        self._emptied_at = 0.0
        """When the ring had its last event before it was emptied."""
        self._wake = asyncio.Event()
        self._hurry = asyncio.Event()  # Set when a read must not wait for `_skim_at`.
        self._skim_at = -inf
        self._reads = 0
        self._read_done = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._second = 0.0
        self._waiting: dict[Lane, None] = {}
        """Lanes with informational frames that wait."""
        self._soon = asyncio.Event()
        self._listeners: list[tuple[str, Callable[[], None]]] = []

    # -- life --------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Starts to read at the end of the feed. Raises StoreUnavailable."""
        await self._start_over()
        # The hint of an enqueue is about work. Its commit has an event too.
        self._unsubscribe = self._bus.subscribe(lambda _: self._wake.set(), FEED, WORK)
        self._tasks = [
            asyncio.create_task(self._read_on(), name="holdfast-feed-reader"),
            asyncio.create_task(self._tick_on(), name="holdfast-feed-tick"),
        ]

    async def stop(self) -> None:
        """Stops reading. The connections are closed by their transports."""
        if self._tasks:
            self._unsubscribe()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []

    def listen(self, prefix: str, wake: Callable[[], None]) -> Callable[[], None]:
        """Calls `wake` after events whose kind has the prefix, and when events were skipped. Returns
        what ends that."""
        listener = (prefix, wake)
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    @property
    def epoch(self) -> str:
        return self.bounds.head.epoch

    @property
    def head(self) -> int:
        """The offset up to which the broadcaster has read and dispatched."""
        return self.ring.end

    @property
    def is_at_boundary(self) -> bool:
        return self.boundary == self.head

    def position(self, offset: int) -> Position:
        return Position(self.epoch, offset)

    async def _start_over(self) -> None:
        self.bounds = await self.source.bounds()
        offset = self.bounds.head.offset
        self.ring = Ring(offset, events_max=self._ring_events)
        self._emptied_at = self.source.now()
        self.boundary = offset

    # -- reading -----------------------------------------------------------------------------------

    async def _read_on(self) -> None:
        while True:
            self._wake.clear()
            self._hurry.clear()
            try:
                is_full = await self.read_page()
            except StoreUnavailable as error:
                is_full = False
                if not self.is_store_away:
                    log.warning("the feed cannot be read and waits for the store: %s", error)
                self.is_store_away = True
            except Exception:
                is_full = False
                log.exception("the reader of the feed failed and reads again")
            if not is_full:
                await self.clock.wait(self._wake, POLL_SECONDS)
                if (pause := self._skim_at - self.clock.monotonic()) > 0 and not self.is_watched:
                    await self.clock.wait(self._hurry, pause)
            else:
                await asyncio.sleep(0)

    @property
    def is_watched(self) -> bool:
        """Whether there are clients who may want the next event, or were a moment ago."""
        now = self.clock.monotonic()
        if self.connections or self.lanes:
            self._watched_until = now + WATCHED_SECONDS
            return True
        return now < self._watched_until

    async def read_page(self) -> bool:
        """Reads and dispatches one page. Returns whether there may be more. Without subscribers the events
        stay in the store: only the kinds that have listeners are looked for."""
        try:
            if not self.is_watched:
                return await self._skim()
            answer = await self.source.read(self.position(self.head), PAGE_EVENTS)
            self.is_store_away = False
            if isinstance(answer, Reset):
                await self._lost(StreamReset(answer.reason.value))
                return True
            events = await self._prepare(answer.events)
            self.take(answer, [Entry(event) for event in events])
            return len(answer.events) >= PAGE_EVENTS
        finally:
            self._reads += 1
            done, self._read_done = self._read_done, asyncio.Event()
            done.set()

    async def _skim(self) -> bool:
        prefixes = {prefix for prefix, _ in self._listeners}
        answer = await self.source.skim(self.position(self.head), SKIM_EVENTS, prefixes)
        self.is_store_away = False
        if isinstance(answer, Reset):
            await self._lost(StreamReset(answer.reason.value))
            return True
        if self.is_watched:
            # A subscription that started meanwhile counts on every event after the head.
            return True
        self._pass(answer)
        return answer.position.offset < answer.head.offset

    def _pass(self, skimmed: Skimmed) -> None:
        """Moves the head without events."""
        passed = skimmed.position.offset - self.head
        if not passed:
            return
        self._skim_at = self.clock.monotonic() + SKIM_SECONDS
        self.ring = Ring(skimmed.position.offset, events_max=self._ring_events)
        self._emptied_at = self.source.now()
        if skimmed.position.offset >= skimmed.head.offset:
            self.boundary = self.head
        self.bounds = FeedBounds(self.bounds.oldest, self.position(self.head))
        self.meter.read(passed, self.head)
        for prefix, wake in list(self._listeners):
            if prefix in skimmed.prefixes:
                wake()

    def take(self, page: Page, entries: list[Entry]) -> None:
        """Adds a page to the ring and writes it to the lanes."""
        for entry in entries:
            self.ring.append(entry)
        is_whole = len(entries) < PAGE_EVENTS or page.position.offset >= page.head.offset
        if is_whole:
            self.boundary = self.head
        self.bounds = FeedBounds(self.bounds.oldest, self.position(self.head))
        if entries:
            self.meter.read(len(entries), self.head)
            self._dispatch(entries)

    async def _lost(self, reason: StreamReset) -> None:
        """The reader cannot continue: all subscriptions start over."""
        log.warning("the feed was interrupted (%s): all subscriptions are reset", reason)
        await self._start_over()
        for connection in list(self.connections):
            connection.reset_all(reason)
        for _, wake in list(self._listeners):
            wake()

    async def refresh(self) -> None:
        """Waits until a read that starts after this call has ended, even if it fails."""
        through = self._reads + 2
        while self._reads < through:
            self._wake.set()
            self._hurry.set()
            await self._read_done.wait()

    async def advanced(self, seconds: float) -> bool:
        """Waits for the next read, at most `seconds`."""
        return await self.clock.wait(self._read_done, seconds)

    async def encoded(self, events: list[Event]) -> list[Entry]:
        """Entries of events that were read outside of the ring."""
        return [Entry(event) for event in await self._prepare(events)]

    # -- writing -----------------------------------------------------------------------------------

    def _dispatch(self, entries: list[Entry]) -> None:
        lanes: dict[Lane, None] = {}
        by_topic = self._by_topic
        for entry in entries:
            for topic in entry.topics:
                for lane in by_topic.get(topic, ()):
                    is_new = not lane.inbox or lane.inbox[-1] is not entry
                    if is_new and lane.accepts(entry):
                        lane.inbox.append(entry)
                        lanes[lane] = None
            if entry.kind.startswith(ACCESS_KINDS):
                self._recheck_all()
            for prefix, wake in self._listeners:
                if entry.kind.startswith(prefix):
                    wake()
        now = self.clock.monotonic()
        for lane in lanes:
            self.flush(lane, now)

    def flush(self, lane: Lane, now: float, *, all: bool = False) -> None:
        """Writes what a lane has to send."""
        received = len(lane.inbox)
        entries = lane.take(now, all=all)
        if lane.due_at != NEVER:
            self._waiting[lane] = None
            self._soon.set()
        if entries:
            members = len(lane)
            lane.send(entries, now, self.park_full)
            self.meter.sent(entries, members, self.source.now(), lane.key.transport, received)

    def park_full(self) -> None:
        """Parks the connections whose buffer is full."""
        while self.full:
            self.full.pop().park()

    def _recheck_all(self) -> None:
        for connection in list(self.connections):
            connection.recheck()

    # -- lanes -------------------------------------------------------------------------------------

    def join(self, key: LaneKey, wrap: Wrapping, member: Member) -> Lane:
        """Puts a member that has read everything up to the head into its lane."""
        now = self.clock.monotonic()
        lane = self.lanes.get(key)
        if lane is not None:
            self.flush(lane, now, all=True)
            # If the flush parked all members, the lane was removed.
            lane = self.lanes.get(key)
        if lane is None:
            lane = Lane(key, Style(key.id, key.channel, self.epoch, wrap), now)
            self.lanes[key] = lane
            for topic in key.filter.topics:
                self._by_topic.setdefault(topic, []).append(lane)
        lane.join(member)
        return lane

    def leave(self, lane: Lane, member: Member) -> None:
        lane.leave(member)
        if not lane.cohorts and self.lanes.get(lane.key) is lane:
            del self.lanes[lane.key]
            for topic in lane.key.filter.topics:
                lanes = self._by_topic[topic]
                lanes.remove(lane)
                if not lanes:
                    del self._by_topic[topic]

    # -- time --------------------------------------------------------------------------------------

    async def _tick_on(self) -> None:
        while True:
            if self._waiting:
                await self.clock.sleep(TICK_SECONDS)
            else:
                self._soon.clear()
                await self.clock.wait(self._soon, 1.0)
            try:
                self.tick(self.clock.monotonic())
            except Exception:
                log.exception("a tick of the feed failed")

    def tick(self, now: float) -> None:
        """Sends what has waited long enough; each second also bookmarks and the ticks of connections."""
        waiting, self._waiting = self._waiting, {}
        for lane in waiting:
            self.flush(lane, now)
        if now - self._second < 1.0:
            return
        self._second = now
        for lane in list(self.lanes.values()):
            if now - lane.sent_at >= BOOKMARK_SECONDS and self.is_at_boundary:
                self.flush(lane, now, all=True)
                lane.send_bookmark(self.boundary, now, self.park_full)
        self.buffered = sum(connection.tick(now) for connection in list(self.connections))
        self.meter.buffered(self.buffered)
        self.meter.falloff(self.falloff_seconds())

    def falloff_seconds(self) -> float:
        """The time until the next event of the slowest subscription is pruned. An event that is older than
        the ring counts as its first one, or as the time at which it became empty."""
        offsets = [connection.slowest() for connection in self.connections]
        behind = min((offset for offset in offsets if offset is not None), default=self.head)
        unread = self.ring.read(max(behind, self.ring.start), 1)
        if behind >= self.head:
            return self._keep_seconds
        lag = self.source.now() - (unread[0].at if unread else self._emptied_at)
        return max(0.0, self._keep_seconds - lag)

    _unsubscribe: Callable[[], None]
