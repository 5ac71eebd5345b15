"""A reader begins, never ends, and holds its snapshot while thousands of jobs come and go: no dead row can
be removed. The rate is measured while it still holds on."""

from __future__ import annotations

from chaos.cases._case import Case
from chaos.stage import Stage
from chaos.stores import PostgresStore


async def strike(stage: Stage) -> None:
    assert isinstance(stage.store, PostgresStore)
    stage.strike()
    await stage.store.hold_snapshot()
    stage.call("burst", n=stage.plan.churn)
    stage.heal()


async def clean_up(stage: Stage) -> None:
    assert isinstance(stage.store, PostgresStore)
    await stage.store.let_snapshot_go()


CASE = Case(
    "old-reader",
    "idle-in-transaction reader holds an old snapshot",
    frozenset({"postgres"}),
    strike,
    clean_up,
)
