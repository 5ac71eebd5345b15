"""Edges that were inserted without locking the parents, and are linked afterwards.

Promises: an edge whose parent another transaction holds does not delay others. It stays unlinked until the
next call.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from typing import Final

from msgspec.structs import replace

from holdfast.core.submit import Submission
from holdfast.core.task import Status
from holdfast.store.access import Access
from holdfast.store.scripts import edges as scripts
from holdfast.store.scripts.edges import Linked, Links, Pair
from holdfast.store.scripts.insert import Inserted

LINK_BATCH: Final = 100
log = logging.getLogger("holdfast.store")


class LinkStore:
    """The unlinked edges of one store. With one writer there are none."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def link(self, limit: int = LINK_BATCH, *, without: Collection[str] = ()) -> Linked:
        """Links children that were inserted without locking their parents. `without`: children to skip."""
        access = self._access
        if access.dialect.one_writer or not await access.driver.read(
            lambda: scripts.is_any(without)
        ):
            return Linked(0, True)
        now = access.now()
        return await access.write(
            lambda: scripts.link_some(
                now=now,
                record_id=access.ids.record(now),
                recorder=access.dialect,
                limit=limit,
                without=without,
            )
        )

    async def unlinked(
        self, limit: int = LINK_BATCH, *, without: Collection[str] = ()
    ) -> list[Pair]:
        """The edges that `link` would link."""
        if self._access.dialect.one_writer:
            return []
        return await self._access.driver.read(lambda: scripts.look(limit, without))

    async def link_these(self, pairs: Sequence[Pair]) -> Links:
        """Links those of these edges that are unlinked and whose parents no transaction holds."""
        access = self._access
        now = access.now()
        return await access.write(
            lambda: scripts.link(
                pairs, now=now, record_id=access.ids.record(now), recorder=access.dialect
            )
        )

    async def link_new(
        self, group: Sequence[Submission], inserted: Sequence[Inserted]
    ) -> list[Inserted]:
        """Links the edges of the inserted tasks, and returns their status after that. The insert is
        committed, so an error does not reach the caller: a sweeper links the rest."""
        pairs = [
            (submission.task.id, edge.parent_id)
            for submission, answer in zip(group, inserted, strict=True)
            if answer.created
            for edge in submission.edges
        ]
        statuses: dict[str, Status] = {}
        batch = self._access.dialect.cascade_batch
        try:
            for start in range(0, len(pairs), batch):
                statuses |= (await self.link_these(pairs[start : start + batch])).statuses
        except Exception as error:
            log.warning("the next sweep links new tasks to their parents, after %r", error)
        return [
            replace(answer, status=statuses.get(answer.task_id, answer.status))
            if answer.created
            else answer
            for answer in inserted
        ]
