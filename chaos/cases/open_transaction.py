"""A caller enqueues in a transaction of its own, which holds a limit and names running jobs as parents, and
then leaves that transaction open for longer than a lease."""

from __future__ import annotations

from chaos.cases._case import Case
from chaos.plan import LEASE_SECONDS
from chaos.stage import Stage

BEYOND_SECONDS = 2.0


async def strike(stage: Stage) -> None:
    stage.strike()
    stage.notes |= stage.call("hold", seconds=LEASE_SECONDS + BEYOND_SECONDS)
    stage.heal()


CASE = Case(
    "open-transaction",
    "a caller's transaction with an enqueue stays open",
    frozenset({"postgres"}),
    strike,
    adapters=frozenset({"holdfast"}),
)
