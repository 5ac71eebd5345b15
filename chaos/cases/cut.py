"""The network between workers and server is cut: connections reset, new ones refused, for some seconds."""

from __future__ import annotations

import asyncio

from chaos.cases._case import SERVERS, Case
from chaos.stage import Stage

CUT_SECONDS = 5.0


async def strike(stage: Stage) -> None:
    stage.strike()
    stage.notes["connections_cut"] = stage.proxy.links
    stage.proxy.cut()
    await asyncio.sleep(CUT_SECONDS)
    stage.proxy.heal()
    stage.heal()


CASE = Case(
    "cut", "network cut (RST) between workers and server", SERVERS, strike, needs_proxy=True
)
