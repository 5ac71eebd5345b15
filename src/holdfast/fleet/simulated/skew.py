"""The clock of a simulated host: its time of day is wrong, and it runs a little fast or slow."""

from __future__ import annotations

import asyncio
from typing import Final

from holdfast.clock import Clock
from holdfast.fleet.simulated.dice import Dice

RATE_ERROR: Final = 0.005


class SkewedClock:
    """See `holdfast.clock.Clock`."""

    __slots__ = ("_clock", "_offset", "_rate")

    def __init__(self, clock: Clock, offset: float, rate: float) -> None:
        self._clock = clock
        self._offset = offset
        self._rate = rate

    @classmethod
    def drawn(cls, clock: Clock, skew_seconds: float, dice: Dice) -> SkewedClock:
        """A clock that is wrong by at most this much."""
        own = dice.stream("clock")
        offset = own.between(-skew_seconds, skew_seconds)
        return cls(clock, offset, 1.0 + own.between(-RATE_ERROR, RATE_ERROR))

    def now(self) -> float:
        return self._clock.now() + self._offset

    def monotonic(self) -> float:
        return self._clock.monotonic() * self._rate

    async def sleep(self, seconds: float) -> None:
        await self._clock.sleep(seconds / self._rate)

    async def wait(self, event: asyncio.Event, seconds: float) -> bool:
        return await self._clock.wait(event, seconds / self._rate)
