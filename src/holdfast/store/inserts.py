"""Inserts on the general path: tasks with dependencies, limits, an idempotency key or a given id.

Promises: an acknowledged insert is durable with its events. A request whose answer was lost may be repeated.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from typing import Final

from msgspec.structs import replace

from holdfast.core.submit import Submission
from holdfast.core.task import Status
from holdfast.errors import StoreBusy
from holdfast.store.access import Access
from holdfast.store.beside import Beside, begin, end
from holdfast.store.port import RowHeld
from holdfast.store.script import Script
from holdfast.store.scripts import edges as edge_script, insert as insert_script
from holdfast.store.scripts.edges import Linked, Links, Pair
from holdfast.store.scripts.insert import Inserted

LINK_BATCH: Final = 100
log = logging.getLogger("holdfast.store")


class Inserts:
    """The part of a store that inserts tasks and links them to their parents."""

    __slots__ = ("_access",)

    def __init__(self, access: Access) -> None:
        self._access = access

    async def insert(
        self, group: Sequence[Submission], *, hint: str = "", beside: Beside | None = None
    ) -> list[Inserted]:
        """Inserts all tasks of a caller, or none."""
        now = self._access.now()
        unlinked = insert_script.may_wait(group) and self._is_unlinked(group)
        try:
            inserted = await self._access.write(
                lambda: self._insert(group, now, hint=hint, unlinked=unlinked, beside=beside)
            )
        except RowHeld as error:
            if not insert_script.may_wait(group):
                raise
            raise _held_up(group, error) from error
        if unlinked:
            return await self._link_new(group, inserted)
        return inserted

    async def insert_in_tx(
        self, connection: object, group: Sequence[Submission], *, hint: str = ""
    ) -> list[Inserted]:
        """Inserts in the caller's transaction, without locking rows that others need. After its commit `link`
        is due if any task has dependencies."""
        now = self._access.now()
        unlinked = self._is_unlinked(group)
        return await self._access.driver.run_in_tx(
            connection,
            lambda: self._insert(group, now, hint=hint, carried=True, unlinked=unlinked),
            may_clash=insert_script.may_wait(group),
        )

    def _is_unlinked(self, group: Sequence[Submission]) -> bool:
        """Whether edges must not lock parents. With one writer no other transaction waits for them."""
        return not self._access.dialect.one_writer and any(submission.edges for submission in group)

    def _insert(
        self,
        group: Sequence[Submission],
        now: float,
        *,
        hint: str = "",
        carried: bool = False,
        unlinked: bool = False,
        beside: Beside | None = None,
    ) -> Script[list[Inserted]]:
        yield from begin(beside, now)
        inserted = yield from insert_script.insert(
            group,
            now=now,
            record_id=self._access.ids.record(now),
            recorder=self._access.dialect,
            carried=carried,
            unlinked=unlinked,
        )
        events = yield from end(beside, inserted, now)
        assert not events, "an insert takes no further events"
        yield from self._access.dialect.hint(hint)
        return inserted

    async def _link_new(
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

    async def link(self, limit: int = LINK_BATCH, *, without: Collection[str] = ()) -> Linked:
        """Links children that were inserted without locking their parents. `without`: children to skip."""
        if self._access.dialect.one_writer or not await self._access.driver.read(
            lambda: edge_script.is_any(without)
        ):
            return Linked(0, True)
        now = self._access.now()
        return await self._access.write(
            lambda: edge_script.link_some(
                now=now,
                record_id=self._access.ids.record(now),
                recorder=self._access.dialect,
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
        return await self._access.driver.read(lambda: edge_script.look(limit, without))

    async def link_these(self, pairs: Sequence[Pair]) -> Links:
        """Links those of these edges that are unlinked and whose parents no transaction holds."""
        now = self._access.now()
        return await self._access.write(
            lambda: edge_script.link(
                pairs,
                now=now,
                record_id=self._access.ids.record(now),
                recorder=self._access.dialect,
            )
        )


def _held_up(group: Sequence[Submission], error: RowHeld) -> StoreBusy:
    keys = sorted({s.task.idempotency_key or s.task.id for s in group if s.task.request_hash})
    return StoreBusy(
        "another transaction is open and has inserted the same idempotency key or task id (of "
        f"{', '.join(keys[:3])}): nothing was changed; try again when it has ended ({error.__cause__})"
    )
