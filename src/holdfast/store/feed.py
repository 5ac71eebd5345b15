"""The feed: every change of every task, in order, and the counters that follow from it.

Promises: a reader gets contiguous events, or a `Reset` with its reason. Never: a part of a record.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from holdfast.core.event import Event, Position
from holdfast.store.access import Access
from holdfast.store.scripts import feed as scripts
from holdfast.store.scripts.feed import Count, Page, ProjectCount, Reset, ResetReason, Skimmed

__all__ = ["Count", "FeedStore", "Page", "ProjectCount", "Reset", "ResetReason", "Skimmed"]
COUNT_BATCHES: Final = 20
"""Batches of uncounted records that one call of `counters` processes."""


class FeedStore:
    """The feed of one store."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def read(self, after: Position | None, limit: int = 500) -> Page | Reset:
        """The events after a position. None: from the first event that the feed still has."""
        access = self._access
        return await access.driver.read(lambda: scripts.read(access.dialect, after, limit))

    async def skim(self, after: Position, limit: int, prefixes: Collection[str]) -> Skimmed | Reset:
        """Passes up to `limit` events, and says which of the prefixes their kinds have."""
        access = self._access
        return await access.driver.read(
            lambda: scripts.skim(access.dialect, after, limit, prefixes)
        )

    async def head(self) -> Position:
        """The position of the last event."""
        return await self._access.driver.read(lambda: scripts.head(self._access.dialect))

    async def oldest(self) -> Position:
        """The position before the oldest event that is kept."""
        return await self._access.driver.read(scripts.oldest)

    async def history(self, task_id: str) -> list[Event]:
        """The events of one task."""
        access = self._access
        return await access.driver.read(lambda: scripts.history(access.dialect, task_id))

    async def counters(self) -> list[Count]:
        """(queue, type, priority, status, n), exact as of now. With a backlog of more than a million
        uncounted records, as of the last one that was counted."""
        access = self._access
        rows: list[Count] = []
        for _ in range(COUNT_BATCHES):
            is_done, rows = await access.driver.write_one(lambda: scripts.counters(access.dialect))
            if is_done:
                break
        return rows

    async def project_counters(self, project: str) -> list[ProjectCount]:
        """(queue, status, n) of one project, exact as of now, like `counters`."""
        await self.counters()
        rows = await self._access.rows("project_counters", project=project)
        return [(row[0], row[1], row[2]) for row in rows]

    async def new_epoch(self) -> Position:
        """Starts a new epoch after a restore that the store cannot detect: every reader gets a reset and
        reads the state again. Returns the head of the feed."""
        epoch = self._access.ids.token()
        return await self._access.driver.write_one(lambda: scripts.new_epoch(epoch))
