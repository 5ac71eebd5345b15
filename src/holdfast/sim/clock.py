"""The clock of one node: its own idea of the time, wrong in the ways that clocks are wrong.

Promises: `monotonic` never goes back, but runs too fast or too slow; `now` may step. All of it follows from
the loop's time.
"""

from __future__ import annotations

import asyncio

EPOCH = 1_800_000_000.0


class NodeClock:
    """See `holdfast.clock.Clock`."""

    __slots__ = ("_loop", "offset", "rate", "slept")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, *, rate: float = 1.0, offset: float = 0.0
    ) -> None:
        self._loop = loop
        self.rate = rate
        """Seconds that it counts in one true second."""
        self.offset = offset
        """How far the wall time is off; a step changes it."""
        self.slept = 0.0
        """True seconds for which the machine slept. Its timers do not count them; its clocks do."""

    def now(self) -> float:
        return EPOCH + self._loop.time() * self.rate + self.offset

    def monotonic(self) -> float:
        return self._loop.time() * self.rate

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / self.rate)

    async def wait(self, event: asyncio.Event, seconds: float) -> bool:
        if event.is_set():
            return True
        try:
            async with asyncio.timeout(max(0.0, seconds) / self.rate):
                await event.wait()
        except TimeoutError:
            return event.is_set()
        return True
