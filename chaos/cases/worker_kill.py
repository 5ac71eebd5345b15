"""One of two workers is killed with jobs running; nobody starts it again."""

from __future__ import annotations

from chaos.cases._case import EVERYWHERE, Case
from chaos.stage import Stage


async def strike(stage: Stage) -> None:
    stage.strike()
    stage.workers[0].kill()
    stage.removed += 1
    stage.heal()


CASE = Case("worker-kill", "worker kill -9, not restarted", EVERYWHERE, strike)
