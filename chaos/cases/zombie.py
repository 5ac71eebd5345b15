"""One of two workers is stopped with jobs running, for longer than its lease, and then goes on."""

from __future__ import annotations

import asyncio
import signal

from chaos.cases._case import EVERYWHERE, Case
from chaos.plan import LEASE_SECONDS
from chaos.stage import Stage

BEYOND_SECONDS = 4.0


async def strike(stage: Stage) -> None:
    stage.strike()
    stage.workers[0].signal(signal.SIGSTOP)
    await asyncio.sleep(LEASE_SECONDS + BEYOND_SECONDS)
    stage.workers[0].signal(signal.SIGCONT)
    stage.heal()


CASE = Case("zombie", "worker stopped beyond its lease, then continued", EVERYWHERE, strike)
