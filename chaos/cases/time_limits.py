"""The database ends statements, and transactions that idle, after a few milliseconds from now on."""

from __future__ import annotations

from chaos.cases._case import Case
from chaos.stage import Stage
from chaos.stores import PostgresStore

LIMIT = "5ms"
"""Shorter than a commit or a wait for a row may take."""


async def strike(stage: Stage) -> None:
    assert isinstance(stage.store, PostgresStore)
    stage.strike()
    killed = await stage.store.set_for_all(
        statement_timeout=LIMIT, idle_in_transaction_session_timeout=LIMIT
    )
    stage.notes["connections_killed"] = killed
    stage.heal()


CASE = Case(
    "time-limits",
    "the database's time limits become a few milliseconds",
    frozenset({"postgres"}),
    strike,
    adapters=frozenset({"holdfast"}),
)
