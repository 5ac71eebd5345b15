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
        """What `asyncio.timeout` around `event.wait` does, without the cancellation at the end of the time,
        which every idle loop of a run would pay each time."""
        if event.is_set():
            return True
        waiter: asyncio.Future[bool] = self._loop.create_future()
        timer = self._loop.call_later(max(0.0, seconds) / self.rate, _end, waiter)
        event._waiters.append(waiter)
        try:
            return await waiter or event.is_set()
        finally:
            timer.cancel()
            event._waiters.remove(waiter)


def _end(waiter: asyncio.Future[bool]) -> None:
    if not waiter.done():
        waiter.set_result(False)
