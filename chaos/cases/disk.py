"""The disk of the store is full for some seconds, then there is room again.

What the subject writes is also refused while the ballast takes every byte that is given back. A server that
gave up meanwhile is started again by the operator who made the room.
"""

from __future__ import annotations

import asyncio

from chaos.cases._case import EVERYWHERE, Case
from chaos.stage import Stage

FULL_SECONDS = 8.0
REFILL_SECONDS = 0.2


async def strike(stage: Stage) -> None:
    stage.strike()
    for _ in range(int(FULL_SECONDS / REFILL_SECONDS)):
        stage.disk.fill()
        await asyncio.sleep(REFILL_SECONDS)
    stage.disk.free()
    if not stage.store.is_up():
        stage.notes["server_gave_up"] = 1
        stage.store.start_again()
    stage.heal()


CASE = Case("disk-full", "disk of the store full", EVERYWHERE, strike, needs_small_disk=True)
