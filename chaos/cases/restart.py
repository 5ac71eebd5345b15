"""The server crashes under load and is started again a second later."""

from __future__ import annotations

import asyncio

from chaos.cases._case import SERVERS, Case
from chaos.stage import Stage

DOWN_SECONDS = 1.0


async def strike(stage: Stage) -> None:
    stage.strike()
    stage.store.crash()
    await asyncio.sleep(DOWN_SECONDS)
    stage.store.start_again()
    stage.heal()


CASE = Case("restart", "server crashed and started again", SERVERS, strike)
