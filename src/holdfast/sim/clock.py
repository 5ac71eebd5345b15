"""The clock of one simulated node, with the errors of a real clock.

Promises: `monotonic` never goes back but may run fast or slow; `now` may also step. Both are computed from
the loop's time."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from holdfast.sim.loop import SimLoop

EPOCH = 1_800_000_000.0


class NodeClock:
    """See `holdfast.clock.Clock`."""

    __slots__ = ("_loop", "offset", "rate", "slept")

    def __init__(self, loop: SimLoop, *, rate: float = 1.0, offset: float = 0.0) -> None:
        self._loop = loop
        self.rate = rate
        """Seconds of this clock per second of loop time."""
        self.offset = offset
        """Offset of the wall clock; a clock step changes it."""
        self.slept = 0.0
        """Seconds for which the machine was suspended. Its clocks count them, its timers do not."""

    def now(self) -> float:
        return EPOCH + self._loop.at * self.rate + self.offset

    def monotonic(self) -> float:
        return self._loop.at * self.rate

    def sleep(self, seconds: float) -> Coroutine[Any, Any, None]:
        return asyncio.sleep(seconds / self.rate)

    async def wait(self, event: asyncio.Event, seconds: float) -> bool:
        if event.is_set():
            return True
        try:
            async with asyncio.timeout(max(0.0, seconds) / self.rate):
                await event.wait()
        except TimeoutError:
            return event.is_set()
        return True
