"""Shortcuts of `Store.claim`: tasks without limits, in one statement on PostgreSQL.

Promises: a claim whose record id exists already takes no task. If the answer to a claim is lost, the
heartbeat releases the tasks that it took.
"""

from __future__ import annotations

from typing import Final

from holdfast.core.claiming import SMALL, Claimed, ClaimRequest
from holdfast.store.access import Access
from holdfast.store.port import RecordExists

DRAWS: Final = 3
"""Tries with a new record id: two processes may draw the same id."""


class FastClaims:
    """The shortcuts of `Store.claim`."""

    __slots__ = ("_access",)

    def __init__(self, access: Access) -> None:
        self._access = access

    async def warm_up(self, claim: ClaimRequest) -> None:
        """Runs the statements of a worker once without effect, to prepare their plans."""
        access = self._access
        await access.driver.warm_up(access.dialect.fast.rehearse(claim, now=access.now()))

    async def claim(self, claim: ClaimRequest) -> tuple[Claimed, list[str]]:
        """The next tasks in order, and the ids of tasks with limits, which the general path claims."""
        access = self._access
        record_id = access.ids.record(access.now())
        is_small = claim.expected is not None and claim.expected <= SMALL
        try:
            return await access.driver.write_one(
                lambda: access.dialect.fast.claim(claim, now=access.now(), record_id=record_id),
                small=is_small,
            )
        except RecordExists:
            return Claimed([], look_again=True), []

    async def claim_next(self, claim: ClaimRequest) -> Claimed:
        """The first task in line, unless it has limits. Cheaper than `claim` for a single task."""
        access = self._access
        for _ in range(DRAWS):
            record_id = access.ids.record(access.now())
            try:
                tasks = await access.driver.write_one(
                    lambda record_id=record_id: access.dialect.fast.claim_next(  # type: ignore[misc]
                        claim, now=access.now(), record_id=record_id
                    )
                )
            except RecordExists:
                continue
            return Claimed(tasks)
        return Claimed([])
