"""Every connection of the workers goes silent and stays open, for ever; new ones are sound."""

from __future__ import annotations

from chaos.cases._case import SERVERS, Case
from chaos.stage import Stage


async def strike(stage: Stage) -> None:
    stage.strike()
    stage.notes["connections_frozen"] = stage.proxy.links
    stage.proxy.freeze()
    stage.heal()


CASE = Case("half-open", "connections go silent but stay open", SERVERS, strike, needs_proxy=True)
