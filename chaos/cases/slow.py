"""The network between workers and server is slow: each chunk late, the link narrow, for some seconds."""

from __future__ import annotations

import asyncio

from chaos.cases._case import SERVERS, Case
from chaos.stage import Stage

SLOW_SECONDS = 8.0
LATENCY_SECONDS = 0.1
BYTES_PER_SECOND = 256 * 1024


async def strike(stage: Stage) -> None:
    stage.strike()
    stage.proxy.slow(latency_seconds=LATENCY_SECONDS, bytes_per_second=BYTES_PER_SECOND)
    await asyncio.sleep(SLOW_SECONDS)
    stage.proxy.heal()
    stage.heal()


CASE = Case("slow", "network slow: 100 ms and 256 KiB/s", SERVERS, strike, needs_proxy=True)
