"""Claims: the shortcut first, then the general path for tasks with limits. Also gates and due times.

Promises: an answered claim is durable with its events, under a new fence. A claim does not wait for rows that
another transaction holds. Never: runs a task.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from msgspec.structs import replace

from holdfast.core.claiming import HELD_RETRY_SECONDS, Claimed, ClaimRequest, Upcoming
from holdfast.core.priority import AGEING_SECONDS
from holdfast.core.task import Priority
from holdfast.errors import StoreUnavailable
from holdfast.store.access import Access
from holdfast.store.fast.claim import FastClaims
from holdfast.store.port import RowHeld
from holdfast.store.script import Script
from holdfast.store.scripts import claim as claim_script
from holdfast.store.scripts.claim import Wait


class Claims:
    """The part of a store that assigns tasks to nodes."""

    __slots__ = ("_access", "_fast")

    def __init__(self, access: Access) -> None:
        self._access = access
        self._fast = FastClaims(access)

    async def warm_up(self, claim: ClaimRequest) -> None:
        await self._fast.warm_up(claim)

    async def claim(self, claim: ClaimRequest) -> Claimed:
        if claim.expected == 1 and claim.limit == 1:
            return await self._fast.claim_next(claim)
        claimed = await self._claim(claim)
        if not claimed.held_types:
            return claimed
        types = tuple(name for name in claim.types if name not in claimed.held_types)
        room = claim.limit - len(claimed.tasks)
        behind = Claimed([])
        if types and room > 0:
            behind = await self._claim(replace(claim, types=types, limit=room, expected=None))
        return Claimed(
            claimed.tasks + behind.tasks,
            _earliest(claimed.opens_at, behind.opens_at),
            claimed.parked + behind.parked,
            behind.look_again,
            blind_seconds=HELD_RETRY_SECONDS,
        )

    async def _claim(self, claim: ClaimRequest) -> Claimed:
        claimed, limited_ids = await self._fast.claim(claim)
        if not limited_ids:
            return claimed
        counted = await self._claim_counted(limited_ids, claim)
        return _together(claimed, counted, len(limited_ids))

    async def _claim_counted(self, ids: Sequence[str], claim: ClaimRequest) -> Claimed:
        """Claims tasks with limits. Waits briefly for a held limit: another transaction inserts it or
        finishes a task of it, and both are as short as this claim."""
        try:
            claimed = await self._claim_limited(ids, claim, Wait.IF_NONE_IS_FREE)
        except RowHeld:
            return await self._claim_limited(ids, claim, Wait.NEVER)
        if claimed.held_types:
            with suppress(StoreUnavailable):
                late = await self._claim_limited(ids, claim, Wait.BRIEFLY)
                return _together(
                    replace(claimed, held_types=()), late, len(late.tasks) + late.parked
                )
        return claimed

    async def _claim_limited(self, ids: Sequence[str], claim: ClaimRequest, wait: Wait) -> Claimed:
        return await self._access.write(
            lambda: claim_script.claim_limited(
                ids,
                claim,
                now=(now := self._access.now()),
                record_id=self._access.ids.record(now),
                recorder=self._access.dialect,
                wait=wait,
            )
        )

    async def claim_aged(
        self,
        claim: ClaimRequest,
        ageing_seconds: float = AGEING_SECONDS,
        *,
        below: Priority = Priority.CRITICAL,
    ) -> Claimed:
        """The tasks that have waited longest, of those less urgent than `below`."""

        def script() -> Script[Claimed]:
            now = self._access.now()
            aged = yield from self._access.dialect.pick_aged(
                claim, now=now, ageing_seconds=ageing_seconds, below=below
            )
            limits = yield from claim_script.lock_briefly(aged)
            return (
                yield from claim_script.claim_these(
                    aged,
                    claim,
                    limits,
                    now=now,
                    record_id=self._access.ids.record(now),
                    recorder=self._access.dialect,
                )
            )

        with suppress(StoreUnavailable):
            return await self._access.write(script)
        # A limit is held, or the store is unavailable; then the next claim fails as well.
        return Claimed([])

    async def open_gates(self) -> tuple[int, float | None]:
        """Unparks tasks that waited for a rate. Returns how many, and when the next gate opens."""
        now = self._access.now()
        return await self._access.write(
            lambda: claim_script.open_gates(
                now=now, record_id=self._access.ids.record(now), recorder=self._access.dialect
            )
        )

    async def next_due(self, queues: Sequence[str], after: float | None = None) -> Upcoming:
        """When the next task becomes due, after now or after `after`, and when the next limit opens."""
        now = self._access.now() if after is None else after
        rows = await self._access.rows("next_due", queues=list(queues), now=now)
        return Upcoming(*rows[0])

    async def first_due(self, queues: Sequence[str]) -> Upcoming:
        """When the first task in line was or will be due, and when the next limit opens."""
        rows = await self._access.rows("first_due", queues=list(queues))
        return Upcoming(*rows[0])


def _together(plain: Claimed, limited: Claimed, candidates: int) -> Claimed:
    """Joins the results of both parts of a claim. `candidates`: how many tasks with limits the first part
    read."""
    tasks = sorted(plain.tasks + limited.tasks, key=lambda task: (task.priority, task.due_at))
    others_took = candidates - len(limited.tasks) - limited.parked > 0 and not limited.held_types
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
