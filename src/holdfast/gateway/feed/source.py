"""The feed of a store as a `FeedSource`."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from holdfast.core.event import Event, Position
from holdfast.core.subscription import FeedBounds
from holdfast.store.feed import Page, Reset, Skimmed
from holdfast.store.store import Store

HISTORY_SURE: Final = 100
"""The store keeps references to this many records of a task. A longer history may be incomplete."""
NO_EPOCH: Final = Position("", 0)


class StoreSource:
    """See `FeedSource`."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def read(self, after: Position, limit: int) -> Page | Reset:
        return await self._store.feed.read(after, limit)

    async def skim(self, after: Position, limit: int, prefixes: Collection[str]) -> Skimmed | Reset:
        return await self._store.feed.skim(after, limit, prefixes)

    async def history(self, task_id: str, *, after: int, through: int) -> list[Event] | None:
        events = await self._store.feed.history(task_id)
        if len(events) >= HISTORY_SURE:
            return None
        return [event for event in events if after < event.position.offset <= through]

    async def bounds(self) -> FeedBounds:
        answer = await self._store.feed.read(NO_EPOCH, 1)
        if not isinstance(answer, Reset):
            raise TypeError("the feed has an empty epoch")
        return FeedBounds(answer.oldest, answer.head)

    def now(self) -> float:
        return self._store.now()
