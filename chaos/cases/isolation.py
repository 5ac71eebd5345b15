"""Every transaction of the database is serializable from now on, unless a session says otherwise."""

from __future__ import annotations

from chaos.cases._case import Case
from chaos.stage import Stage
from chaos.stores import PostgresStore


async def strike(stage: Stage) -> None:
    assert isinstance(stage.store, PostgresStore)
    stage.strike()
    killed = await stage.store.set_for_all(default_transaction_isolation="serializable")
    stage.notes["connections_killed"] = killed
    stage.heal()


CASE = Case(
    "isolation",
    "the database's default isolation becomes serializable",
    frozenset({"postgres"}),
    strike,
)
