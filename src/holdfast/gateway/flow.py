"""The rates of the last hour, counted from the feed when a page asks for them.

Promises: an event is counted once. What was not counted is null, not zero. A look reads at most
`LOOK_EVENTS` events: if more have passed since the last look, the ones between stay uncounted. Without looks
nothing is read.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from typing import Any, Final, NamedTuple

from holdfast.core.event import Position
from holdfast.queue.views import at
from holdfast.store.store import Reset, Store

PART_SECONDS: Final = 10
KINDS: Final = (
    "task.enqueued",
    "task.started",
    "task.completed",
    "task.failed",
    "task.dead",
    "task.lost",
)
KEPT_SECONDS: Final = 3_600 + 2 * PART_SECONDS
LOOK_EVENTS: Final = 10_000
PAGE_EVENTS: Final = 1_000


class _Span(NamedTuple):
    """A time for which all events were counted."""

    first: float
    last: float


class Flow:
    """The rates of one store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._counts: dict[int, Counter[str]] = {}
        self._spans: deque[_Span] = deque()
        self._position: Position | None = None
        self._one = asyncio.Lock()

    async def over(self, minutes: int) -> dict[str, Any]:
        """The counts of the last minutes, by kind. The last part is not over yet."""
        async with self._one:
            await self._count()
        now = self._store.now()
        self._forget(now)
        last = int(now // PART_SECONDS)
        parts = range(last - minutes * 60 // PART_SECONDS + 1, last + 1)
        known = [self._is_known(part) for part in parts]
        series = {
            kind: [
                self._counts.get(part, Counter[str]())[kind] if is_known else None
                for part, is_known in zip(parts, known, strict=True)
            ]
            for kind in KINDS
        }
        return {"seconds": PART_SECONDS, "from": at(parts[0] * PART_SECONDS), "series": series}

    async def _count(self) -> None:
        """Reads what happened since the last look."""
        head = await self._store.feed.head()
        position = self._position
        if position is None or position.epoch != head.epoch or self._is_far(position, head):
            start = max(0, head.offset - LOOK_EVENTS)
            oldest = await self._store.feed.oldest()
            position = max(Position(head.epoch, start), oldest, key=lambda one: one.offset)
            self._spans.append(_Span(await self._time_after(position), self._store.now()))
        while position.offset < head.offset:
            page = await self._store.feed.read(position, PAGE_EVENTS)
            if isinstance(page, Reset):
                self._position = None
                return
            for event in page.events:
                if event.kind in KINDS:
                    counts = self._counts.setdefault(int(event.at // PART_SECONDS), Counter())
                    counts[event.kind] += 1
            if page.position == position:
                break
            position = page.position
        self._position = position
        self._spans[-1] = self._spans[-1]._replace(last=self._store.now())

    def _is_far(self, position: Position, head: Position) -> bool:
        return head.offset - position.offset > LOOK_EVENTS

    async def _time_after(self, position: Position) -> float:
        """From when on all is counted: the time of the next event. Always, if the feed begins there."""
        if position.offset == 0:
            return 0.0
        page = await self._store.feed.read(position, 1)
        if isinstance(page, Reset) or not page.events:
            return self._store.now()
        return page.events[0].at

    def _is_known(self, part: int) -> bool:
        middle = (part + 0.5) * PART_SECONDS
        return any(
            span.first <= middle and part * PART_SECONDS <= span.last for span in self._spans
        )

    def _forget(self, now: float) -> None:
        oldest = int((now - KEPT_SECONDS) // PART_SECONDS)
        for part in [part for part in self._counts if part < oldest]:
            del self._counts[part]
        while len(self._spans) > 1 and self._spans[0].last < now - KEPT_SECONDS:
            self._spans.popleft()
