"""The verbs of a store that hand work out: claims, gates of limits, and when to look.

Promises: a claim is durable with its facts when it is answered, under a new fence; no claim waits for a row
that another transaction holds. Never: runs anything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from holdfast.core.claiming import Claimed, ClaimRequest, Upcoming
from holdfast.core.priority import AGEING_SECONDS
from holdfast.core.task import Priority, Task
from holdfast.errors import StoreUnavailable
from holdfast.store.inserts import Inserts
from holdfast.store.port import RecordExists, RowHeld
from holdfast.store.script import Script, call, one
from holdfast.store.scripts import claim as claim_script
from holdfast.store.scripts.claim import Wait
from holdfast.store.scripts.limits import HELD_SECONDS

T = TypeVar("T")
DRAWS: Final = 3
"""How often a claim draws the id of its record: two processes may draw the same one."""


class Handouts(Inserts):
    """The part of a store that hands work out."""

    async def warm_up(self, claim: ClaimRequest) -> None:
        """Before the first task comes: what a worker asks all day is asked once, in vain."""
        await self._driver.warm_up(self._dialect.rehearse(claim, now=self.now()))

    async def claim(self, claim: ClaimRequest, *, small: bool = False) -> Claimed:
        """The next tasks in order, under new fences, judged at the time that the database is reached.
        `small`: few are expected. Tasks whose limit another transaction holds are left, and those of other
        types behind them are not kept waiting."""
        claimed = await self._claim(claim, small=small)
        if not claimed.held_types:
            return claimed
        types = tuple(name for name in claim.types if name not in claimed.held_types)
        room = claim.limit - len(claimed.tasks)
        behind = Claimed([])
        if types and room > 0:
            behind = await self._claim(replace(claim, types=types, limit=room))
        return Claimed(
            claimed.tasks + behind.tasks,
            _earliest(claimed.opens_at, behind.opens_at),
            claimed.parked + behind.parked,
            behind.look_again,
            HELD_SECONDS,
        )

    async def _claim(self, claim: ClaimRequest, *, small: bool = False) -> Claimed:
        record_id = self._ids.record(self.now())
        try:
            claimed, ids = await self._driver.write_one(
                lambda: self._dialect.claim(claim, now=self.now(), record_id=record_id), small=small
            )
        except RecordExists:
            # Nothing was taken; what an unanswered first run had taken, the keeper gives back.
            return Claimed([], look_again=True)
        if not ids:
            return claimed
        return _together(claimed, await self._claim_counted(ids, claim), len(ids))

    async def _claim_counted(self, ids: Sequence[str], claim: ClaimRequest) -> Claimed:
        """Of tasks under limits. One that is held is held by the end of a task, as a rule, which takes no
        longer than this claim does. Or it is new."""
        try:
            found = await self._claim_limited(ids, claim, Wait.IF_NONE_IS_FREE)
        except RowHeld:
            return await self._claim_limited(ids, claim, Wait.NEVER)
        if found.held_types:
            with suppress(StoreUnavailable):
                late = await self._claim_limited(ids, claim, Wait.BRIEFLY)
                return _together(replace(found, held_types=()), late, len(late.tasks) + late.parked)
        return found

    async def _claim_limited(self, ids: Sequence[str], claim: ClaimRequest, wait: Wait) -> Claimed:
        return await self._write(
            lambda: claim_script.claim_limited(
                ids,
                claim,
                now=(now := self.now()),
                record_id=self._ids.record(now),
                recorder=self._dialect,
                wait=wait,
            )
        )

    async def claim_next(self, claim: ClaimRequest) -> list[Task]:
        """The first in line alone, unless a limit counts it: quicker than `claim` where that is all."""
        for _ in range(DRAWS):
            record_id = self._ids.record(self.now())
            try:
                return await self._driver.write_one(
                    lambda record_id=record_id: self._dialect.claim_next(  # type: ignore[misc]
                        claim, now=self.now(), record_id=record_id
                    )
                )
            except RecordExists:
                continue
        return []

    async def claim_aged(
        self,
        claim: ClaimRequest,
        ageing_seconds: float = AGEING_SECONDS,
        *,
        below: Priority = Priority.CRITICAL,
    ) -> Claimed:
        """The tasks that have waited longest, of those less urgent than `below`."""

        def script() -> Script[Claimed]:
            now = self.now()
            aged = yield from self._dialect.pick_aged(
                claim, now=now, ageing_seconds=ageing_seconds, below=below
            )
            limits = yield from claim_script.lock_briefly(aged)
            return (
                yield from claim_script.claim_these(
                    aged,
                    claim,
                    limits,
                    now=now,
                    record_id=self._ids.record(now),
                    recorder=self._dialect,
                )
            )

        with suppress(StoreUnavailable):
            return await self._write(script)
        # A limit is held; or the store is away, as the claim that follows will find.
        return Claimed([])

    async def open_gates(self) -> tuple[int, float | None]:
        """Lets tasks in that waited for a rate; says how many, and when the next may come."""
        now = self.now()
        return await self._write(
            lambda: claim_script.open_gates(
                now=now, record_id=self._ids.record(now), recorder=self._dialect
            )
        )

    async def next_due(self, queues: Sequence[str], after: float | None = None) -> Upcoming:
        """When the first task is due that is not due yet, or was not yet at `after`; and when the next limit
        lets tasks in."""
        now = self.now() if after is None else after
        rows = await self._one("next_due", queues=list(queues), now=now)
        return Upcoming(*rows[0])

    async def first_due(self, queues: Sequence[str]) -> Upcoming:
        """When the first task in line was or will be due, and the next limit lets tasks in."""
        rows = await self._one("first_due", queues=list(queues))
        return Upcoming(*rows[0])

    async def _write(self, make: Callable[[], Script[T]]) -> T:
        return await self._driver.write(make, mark=self._mark)

    async def _one(self, statement: str, **params: Any) -> list[Any]:
        return await self._driver.read(lambda: one(call(statement, **params)))


def _together(plain: Claimed, limited: Claimed, seen: int) -> Claimed:
    """What a claim got, of `seen` tasks under limits."""
    tasks = sorted(plain.tasks + limited.tasks, key=lambda task: (task.priority, task.due_at))
    others_took = seen - len(limited.tasks) - limited.parked > 0 and not limited.held_types
    return Claimed(
        tasks,
        _earliest(plain.opens_at, limited.opens_at),
        plain.parked + limited.parked,
        plain.look_again or limited.look_again or others_took,
        plain.blind_seconds,
        limited.held_types,
    )


def _earliest(*moments: float | None) -> float | None:
    return min((at for at in moments if at is not None), default=None)
