"""Claims of what no limit counts.

Promises: a claim whose record id is taken takes nothing. What an unanswered first run has taken, the
heartbeat gives back.
"""

from __future__ import annotations

from typing import Final

from holdfast.core.claiming import SMALL, Claimed, ClaimRequest
from holdfast.store.access import Access
from holdfast.store.port import RecordExists

DRAWS: Final = 3
"""How often a claim draws the id of its record: two processes may draw the same one."""


class FastClaims:
    """The shortcuts of `Store.claim`."""

    __slots__ = ("_access",)

    def __init__(self, access: Access) -> None:
        self._access = access

    async def warm_up(self, claim: ClaimRequest) -> None:
        """Before the first task comes, the statements of a worker are run once without effect."""
        access = self._access
        await access.driver.warm_up(access.dialect.fast.rehearse(claim, now=access.now()))

    async def claim(self, claim: ClaimRequest) -> tuple[Claimed, list[str]]:
        """The next tasks in order; and the ids of those under limits, which the general way judges."""
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
        """The first in line alone, unless a limit counts it: less work than `claim` where that is all."""
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
