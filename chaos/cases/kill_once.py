"""Every connection to the server is killed, once."""

from __future__ import annotations

from chaos.cases._case import SERVERS, Case
from chaos.stage import Stage


async def strike(stage: Stage) -> None:
    stage.strike()
    stage.notes["connections_killed"] = await stage.store.kill_connections()
    stage.heal()


CASE = Case("kill-once", "all connections killed once", SERVERS, strike)
