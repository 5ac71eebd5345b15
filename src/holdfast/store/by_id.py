"""Claims of tasks by id, and what ends by itself at a time.

Promises: an answered claim is durable with its event. A lease that has ended expires before the claim, so
no sweep is needed in between.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from holdfast.core.claim_by_id import ClaimById
from holdfast.core.claiming import Claimed, ClaimRequest
from holdfast.core.decide import Ruling
from holdfast.core.task import RunId, Task
from holdfast.core.transition import Refusal
from holdfast.store.access import Access
from holdfast.store.script import Guard, Script, call, guarded
from holdfast.store.scripts import claim_by_id as scripts
from holdfast.store.scripts.claim_by_id import Ended, HeldAlready
from holdfast.store.scripts.nodes import in_service

TRIES: Final = 3
"""How often a claim expires the lease that is in its way: it may be renewed, or another claim may win."""
DEADLINES_MAX: Final = 100


class DueKind(StrEnum):
    """What ends by itself at a time."""

    STALL = "stall"
    UNASSIGN = "unassign"
    PREFERENCE = "preference"
    """Of the tasks that prefer a node. It ends when the node is late."""
    DECISION = "decision"
    INTERVENTION = "intervention"


class Deadline(NamedTuple):
    """When something ends by itself: a run without progress, a reservation, the preference for a node, a
    decision, an intervention. `id`: of the task, node, decision or intervention."""

    kind: DueKind
    id: str
    at: float


class ClaimsById:
    """The part of a store that serves nodes which name their tasks."""

    __slots__ = ("_access", "_expire")

    def __init__(
        self, access: Access, expire: Callable[[Sequence[RunId]], Awaitable[list[Ruling]]]
    ) -> None:
        self._access = access
        self._expire = expire

    async def claim(self, request: ClaimById, *, guard: Guard | None = None) -> Task | Refusal:
        """The claimed task, or why it was refused: `already-locked`, `not-claimable`, `not-found`. `guard`:
        runs before, in the same transaction."""
        for _ in range(TRIES):
            answer = await self._access.run(
                lambda dialect, ids, now: guarded(
                    guard,
                    scripts.claim_by_id(
                        request, now=now, record_id=ids.record(now), recorder=dialect
                    ),
                )
            )
            match answer:
                case Ended(run):
                    await self._expire([run])
                case HeldAlready(task):
                    return task
                case Refusal():
                    return answer
                case _:
                    return answer.after
        return Refusal(
            request.task_id, "already-locked", f"task {request.task_id} changes hands: try again"
        )

    async def claim_assigned(self, claim: ClaimRequest) -> Claimed:
        """Claims tasks that an operator has reserved for this node."""
        return await self._access.run(
            lambda dialect, ids, now: scripts.claim_assigned(
                claim, now=now, record_id=ids.record(now), recorder=dialect
            )
        )

    async def deadlines(self) -> list[Deadline]:
        """What ends by itself next. Earliest first."""
        deadlines = await self._access.driver.read(_deadlines)
        return sorted(deadlines, key=lambda deadline: deadline.at)


def _deadlines() -> Script[list[Deadline]]:
    rows = yield call("deadlines", limit=DEADLINES_MAX)
    deadlines = [Deadline(DueKind(kind), id_, at) for kind, id_, at in rows]
    nodes = {row.id for row in deadlines if row.kind is DueKind.PREFERENCE}
    late_at = (yield from in_service(nodes)) if nodes else {}
    # A node that may not claim or is not there is late at any time.
    return [
        row._replace(at=late_at.get(row.id, 0.0)) if row.kind is DueKind.PREFERENCE else row
        for row in deadlines
    ]
