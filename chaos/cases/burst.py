"""Very many jobs at once, on top of the steady load."""

from __future__ import annotations

from chaos.cases._case import EVERYWHERE, Case
from chaos.stage import Stage


async def strike(stage: Stage) -> None:
    stage.strike()
    stage.call("burst", n=stage.plan.burst)
    stage.heal()


CASE = Case("burst", "burst on top of a steady load", EVERYWHERE, strike, is_burst=True)
