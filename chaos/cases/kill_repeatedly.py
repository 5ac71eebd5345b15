"""Every connection to the server is killed, each second for ten seconds."""

from __future__ import annotations

import asyncio

from chaos.cases._case import SERVERS, Case
from chaos.stage import Stage

TIMES = 10


async def strike(stage: Stage) -> None:
    stage.strike()
    killed = 0
    for _ in range(TIMES):
        killed += await stage.store.kill_connections()
        await asyncio.sleep(1.0)
    stage.notes["connections_killed"] = killed
    stage.heal()


CASE = Case("kill-repeatedly", "all connections killed each second, 10 times", SERVERS, strike)
