"""A replay cache in Redis between a gateway and its store.

Each epoch of the feed has one stream, and so has each file of a store on SQLite: a copy of the file has the
same epoch. An entry has the event's offset as its id, `<offset>-0`, so that a
missing event is seen by counting. Every gateway appends the pages that it reads from the store, and the old
events of a client that reconnects to any gateway come from here.
Promises: a page is served only if it is whole: it starts after the requested position and has no hole.
Otherwise the store is read. Redis may be wiped, restarted, absent or hanging at any moment. The stream has at
most about `EVENTS_MAX` entries and expires when no gateway writes to it. Appending is done in the background:
no event waits for Redis.
Never: decides what the feed contains. The end of the feed is always read from the store.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Sequence
from pathlib import Path
from socket import gethostname
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.clock import Clock
from holdfast.core.codec import digest
from holdfast.core.event import Event, Position
from holdfast.core.subscription import FeedBounds
from holdfast.gateway.feed.ports import FeedSource
from holdfast.store.feed import Page, Reset, Skimmed

if TYPE_CHECKING:
    from redis.asyncio import Redis

EVENTS_MAX: Final = 100_000
KEEP_SECONDS: Final = 3_600
AWAY_SECONDS: Final = 5.0
"""How long Redis is left alone after a failure."""
ANSWER_SECONDS: Final = 1.0
"""A slower answer counts as a failure."""
BACKLOG_EVENTS: Final = 10_000
"""Events that wait to be appended. With more the latest are dropped, and the stream starts over."""
APPEND_EVENTS: Final = 500
APPEND: Final = """
local last = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)
local stored = 0
if last[1] then stored = tonumber(string.match(last[1][1], '^%d+')) end
local first = tonumber(ARGV[1])
if stored > 0 and first > stored + 1 then redis.call('DEL', KEYS[1]) stored = 0 end
for i = 4, #ARGV do
  local offset = first + i - 4
  if offset > stored then
    redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[2], string.format('%d-0', offset), 'e', ARGV[i])
  end
end
redis.call('EXPIRE', KEYS[1], ARGV[3])
return 1
"""
"""Appends contiguous events that the stream does not have yet. A stream that would get a hole starts over."""
log = logging.getLogger("holdfast.feed")


class RedisCache:
    """See `FeedSource`. `store` is the source that it caches."""

    def __init__(
        self,
        store: FeedSource,
        client: Redis,
        clock: Clock,
        *,
        place: str = "",
        events_max: int = EVENTS_MAX,
    ) -> None:
        """`place`: what tells the database from its copies (`place_of`)."""
        self._store = store
        self._client = client
        self._clock = clock
        self._place = place
        self._events_max = events_max
        self._head = Position("", 0)
        """The end of what this gateway has read from the store."""
        self._away_until = float("-inf")
        self._backlog: list[Event] = []
        self._appending: asyncio.Task[None] | None = None
        self.hits = 0
        self.misses = 0

    async def read(self, after: Position, limit: int) -> Page | Reset:
        if after.epoch == self._head.epoch and after.offset < self._head.offset:
            events = await self._cached(after, limit)
            if events:
                self.hits += 1
                return Page(events, events[-1].position, self._head)
            self.misses += 1
        answer = await self._store.read(after, limit)
        if isinstance(answer, Page):
            is_newest = answer.position.epoch != self._head.epoch or (
                answer.position.offset > self._head.offset
            )
            if is_newest:
                self._head = answer.position
            self._append_soon(answer.events)
        return answer

    async def skim(self, after: Position, limit: int, prefixes: Collection[str]) -> Skimmed | Reset:
        """Reads a page: the subscribers of another gateway may need its events."""
        page = await self.read(after, limit)
        if isinstance(page, Reset):
            return page
        kinds = {event.kind for event in page.events}
        found = (p for p in prefixes if any(kind.startswith(p) for kind in kinds))
        return Skimmed(page.position, page.head, frozenset(found))

    async def history(self, task_id: str, *, after: int, through: int) -> list[Event] | None:
        return await self._store.history(task_id, after=after, through=through)

    async def bounds(self) -> FeedBounds:
        return await self._store.bounds()

    def now(self) -> float:
        return self._store.now()

    async def settled(self) -> None:
        """Waits until everything that was read is appended, or dropped."""
        if self._appending is not None:
            await self._appending

    async def close(self) -> None:
        """Closes the client."""
        if self._appending is not None:
            self._appending.cancel()
            await asyncio.gather(self._appending, return_exceptions=True)
        await self._client.aclose()

    # -- Redis -------------------------------------------------------------------------------------

    @property
    def _is_away(self) -> bool:
        return self._clock.monotonic() < self._away_until

    def _failed(self, error: Exception) -> None:
        if not self._is_away:
            log.warning("the replay cache in Redis is not used for a moment: %s", error)
        self._away_until = self._clock.monotonic() + AWAY_SECONDS

    async def _cached(self, after: Position, limit: int) -> list[Event]:
        """The events after a position as far as the cache has them without a hole."""
        if self._is_away:
            return []
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                rows: Any = await self._client.xrange(
                    stream_of(after.epoch, self._place),
                    min=f"({after.offset}-0",
                    max="+",
                    count=limit,
                )
            return _contiguous(rows, after)
        except Exception as error:
            self._failed(error)
            return []

    def _append_soon(self, events: Sequence[Event]) -> None:
        if not events or self._is_away or len(self._backlog) > BACKLOG_EVENTS:
            return
        self._backlog += events
        if self._appending is None or self._appending.done():
            self._appending = asyncio.create_task(self._append_on(), name="holdfast-feed-cache")

    async def _append_on(self) -> None:
        while self._backlog:
            events = _run_of(self._backlog)
            del self._backlog[: len(events)]
            try:
                async with asyncio.timeout(ANSWER_SECONDS):
                    await self._append(events)
            except Exception as error:
                self._failed(error)
                self._backlog.clear()

    async def _append(self, events: Sequence[Event]) -> None:
        first = events[0].position
        await self._client.eval(
            APPEND,
            1,
            stream_of(first.epoch, self._place),
            first.offset,
            self._events_max,
            KEEP_SECONDS,
            *(msgspec.json.encode(_Cached.of(event)) for event in events),
        )


class _Cached(msgspec.Struct, frozen=True, array_like=True):
    """An event in the cache, without its position, which is the id of the entry."""

    kind: str
    at: float
    task_id: str
    type: str
    data: dict[str, Any]
    project: str
    version: int

    @classmethod
    def of(cls, event: Event) -> _Cached:
        return cls(
            event.kind,
            event.at,
            event.task_id,
            event.type,
            event.data,
            event.project,
            event.version,
        )

    def event(self, position: Position) -> Event:
        return Event(
            position,
            self.kind,
            self.at,
            self.task_id,
            self.type,
            self.data,
            self.project,
            self.version,
        )


_DECODE: Final = msgspec.json.Decoder(_Cached).decode


def stream_of(epoch: str, place: str = "") -> str:
    """The name of the stream of an epoch."""
    return f"holdfast:feed:{epoch}:{place}" if place else f"holdfast:feed:{epoch}"


def place_of(file: Path | None) -> str:
    """What tells the file of a database from its copies: its machine and its identity there. A server notices
    itself that it is a copy, and starts an epoch: it has no place."""
    if file is None:
        return ""
    status = file.stat()
    return digest(gethostname(), str(status.st_dev), str(status.st_ino))


def _run_of(events: Sequence[Event]) -> list[Event]:
    """The leading events that follow each other, at most `APPEND_EVENTS`."""
    epoch, first = events[0].position
    run: list[Event] = []
    for event in events[:APPEND_EVENTS]:
        if event.position != Position(epoch, first + len(run)):
            break
        run.append(event)
    return run


def _contiguous(rows: Sequence[tuple[bytes, dict[bytes, bytes]]], after: Position) -> list[Event]:
    events: list[Event] = []
    expected = after.offset + 1
    for entry_id, fields in rows:
        offset = int(entry_id.partition(b"-")[0])
        if offset != expected:
            break
        events.append(_DECODE(fields[b"e"]).event(Position(after.epoch, offset)))
        expected += 1
    return events
