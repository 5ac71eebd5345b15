"""The verbs of a store that bring tasks in.

Promises: what a verb acknowledges is durable, with its facts; a request whose answer was lost may be
repeated. `insert` looks up what there is to look up; the others are shorter ways for tasks that need none.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from typing import Final

from msgspec.structs import replace

from holdfast.core.claiming import Claimed, ClaimRequest
from holdfast.core.ids import Ids
from holdfast.core.submit import Submission
from holdfast.core.task import QUEUED, Status, Task
from holdfast.errors import StoreBusy
from holdfast.store.port import Dialect, Driver, RowExists, RowHeld
from holdfast.store.script import Script, call, one
from holdfast.store.scripts import edges as edge_script, insert as insert_script
from holdfast.store.scripts.edges import Linked, Links, Pair
from holdfast.store.scripts.insert import Inserted

LINK_BATCH: Final = 100
log = logging.getLogger("holdfast.store")


class Inserts:
    """The part of a store that takes work in."""

    def __init__(self, driver: Driver, dialect: Dialect, ids: Ids) -> None:
        self._driver = driver
        self._dialect = dialect
        self._ids = ids
        self.now = driver.now
        """The store's time, the one that judges leases."""
        self.one_writer = dialect.one_writer

    async def insert(self, group: Sequence[Submission], *, hint: str = "") -> list[Inserted]:
        """One caller's tasks: all of them or none."""
        now = self.now()
        unlinked = insert_script.may_wait(group) and self._is_unlinked(group)
        try:
            found = await self._driver.write(
                lambda: self._insert(group, now, hint=hint, unlinked=unlinked), mark=self._mark
            )
        except RowHeld as error:
            if not insert_script.may_wait(group):
                raise
            raise _held_up(group, error) from error
        if unlinked:
            return await self._link_new(group, found)
        return found

    async def insert_one(
        self, submission: Submission, *, hint: str = "", alone: bool = False
    ) -> Inserted:
        """One task with nothing to check, made just now. `alone`: no other caller is about."""
        task = submission.task
        now = task.created_at
        record_id = self._ids.record(now)
        wanted = self._dialect.insert_one(task, now=now, record_id=record_id, hint=hint)
        try:
            await self._driver.call(wanted, small=alone)
        except RowExists:
            if not await self._is_ours(task.id, record_id):
                return (await self.insert([submission], hint=hint))[0]
        return Inserted(task.id, QUEUED, True)

    async def insert_plain(self, group: Sequence[Submission], *, hint: str = "") -> list[Inserted]:
        """Tasks of many callers with nothing to check, in one statement where the dialect can."""
        now = self.now()
        record_id = self._ids.record(now)
        try:
            new = await self._driver.write_one(
                lambda: self._dialect.insert_plain(group, now=now, record_id=record_id, hint=hint)
            )
        except RowExists:
            if not await self._is_ours(group[0].task.id, record_id):
                return await self.insert(group, hint=hint)
            new = {s.task.id for s in group}
        return [Inserted(s.task.id, QUEUED, s.task.id in new) for s in group]

    async def _is_ours(self, task_id: str, record_id: int) -> bool:
        """Whether a row that exists was inserted with this record: by a first run without an answer. Else
        the request itself was repeated, and the general path sees what is there."""
        rows = await self._driver.read(lambda: one(call("task_history", id=task_id)))
        return bool(rows) and rows[0][0].partition(",")[0] == str(record_id)

    async def insert_and_claim(
        self, group: Sequence[Submission], claim: ClaimRequest
    ) -> tuple[list[Inserted], Claimed]:
        """New tasks with nothing to check, and the next ones to run, in one commit."""
        now = self.now()
        first, second = self._ids.record(now), self._ids.record(now)

        def script() -> Script[tuple[set[str], Claimed]]:
            new = yield from self._dialect.insert_plain(group, now=now, record_id=first, hint="")
            claimed, _ = yield from self._dialect.claim(claim, now=now, record_id=second)
            return new, claimed

        try:
            if len(group) == 1 and (started := await self._start_one(group[0].task, claim, now)):
                return [Inserted(started.id, QUEUED, True)], Claimed([started])
            new, claimed = await self._driver.write_one(script, small=True)
        except RowExists:
            return await self.insert(group), Claimed([])
        return [Inserted(s.task.id, QUEUED, s.task.id in new) for s in group], claimed

    async def _start_one(self, task: Task, claim: ClaimRequest, now: float) -> Task | None:
        """By the shortest way, where nobody is before it in line."""
        found = self._dialect.start_one(task, claim, now=now)
        if found is None:
            return None
        wanted, started = found
        written = await self._driver.call(wanted, small=True)
        return started if written[0] else None

    async def insert_in_tx(
        self, connection: object, group: Sequence[Submission], *, hint: str = ""
    ) -> list[Inserted]:
        """Within the caller's own transaction, which locks no row that others need. When that is committed,
        `link` is due if any task has dependencies."""
        now = self.now()
        unlinked = self._is_unlinked(group)
        return await self._driver.run_in_tx(
            connection,
            lambda: self._insert(group, now, hint=hint, carried=True, unlinked=unlinked),
            may_clash=insert_script.may_wait(group),
        )

    def _is_unlinked(self, group: Sequence[Submission]) -> bool:
        """Whether edges must not lock parents: with one writer, no other transaction could wait for them."""
        return not self.one_writer and any(submission.edges for submission in group)

    def _mark(self) -> int:
        """A number that no other transaction has."""
        return self._ids.record(self.now())

    def _insert(
        self,
        group: Sequence[Submission],
        now: float,
        *,
        hint: str = "",
        carried: bool = False,
        unlinked: bool = False,
    ) -> Script[list[Inserted]]:
        found = yield from insert_script.insert(
            group,
            now=now,
            record_id=self._ids.record(now),
            recorder=self._dialect,
            carried=carried,
            unlinked=unlinked,
        )
        yield from self._dialect.hint(hint)
        return found

    async def _link_new(
        self, group: Sequence[Submission], found: Sequence[Inserted]
    ) -> list[Inserted]:
        """Links the edges of tasks that were just inserted; the answer, with what their parents did to them.
        The insert is committed, so no error may reach the caller: what cannot be linked now is linked by a
        sweeper."""
        made = [each.task.id for each, answer in zip(group, found, strict=True) if answer.created]
        edges = {each.task.id: each.edges for each in group}
        pairs = [(child_id, edge.parent_id) for child_id in made for edge in edges[child_id]]
        statuses: dict[str, Status] = {}
        batch = self._dialect.cascade_batch
        try:
            for start in range(0, len(pairs), batch):
                statuses |= (await self.link_these(pairs[start : start + batch])).statuses
        except Exception as error:
            log.warning("new tasks are linked to their parents by the next sweep after %r", error)
        return [
            replace(each, status=statuses.get(each.task_id, each.status)) if each.created else each
            for each in found
        ]

    async def link(self, limit: int = LINK_BATCH, *, without: Collection[str] = ()) -> Linked:
        """Makes children that came in without locking their parents known to these. `without`: not these
        children."""
        if self.one_writer or not await self._driver.read(lambda: edge_script.is_any(without)):
            return Linked(0, True)
        now = self.now()
        return await self._driver.write(
            lambda: edge_script.link_some(
                now=now,
                record_id=self._ids.record(now),
                recorder=self._dialect,
                limit=limit,
                without=without,
            ),
            mark=self._mark,
        )

    async def unlinked(
        self, limit: int = LINK_BATCH, *, without: Collection[str] = ()
    ) -> list[Pair]:
        """What `link` would link."""
        if self.one_writer:
            return []
        return await self._driver.read(lambda: edge_script.look(limit, without))

    async def link_these(self, pairs: Sequence[Pair]) -> Links:
        """Those of these edges that are unlinked and whose parents are free."""
        now = self.now()
        return await self._driver.write(
            lambda: edge_script.link(
                pairs, now=now, record_id=self._ids.record(now), recorder=self._dialect
            ),
            mark=self._mark,
        )


def _held_up(group: Sequence[Submission], error: RowHeld) -> StoreBusy:
    keys = sorted({s.task.idempotency_key or s.task.id for s in group if s.task.request_hash})
    return StoreBusy(
        "another transaction is open and has inserted the same idempotency key or task id (of "
        f"{', '.join(keys[:3])}): nothing was changed; try again when it has ended ({error.__cause__})"
    )
