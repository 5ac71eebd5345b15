"""Time as a port.

Promises: every component that needs the time or a pause gets a `Clock`; only this module reads the
machine's clocks. Never: called by a rule (rules take `now`).
"""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import Final, Protocol

__all__ = [
    "BlockingClock",
    "Clock",
    "SystemClock",
    "VirtualClock",
]


class Clock(Protocol):
    """Where the time comes from and how to wait for it to pass."""

    def now(self) -> float:
        """Seconds since the epoch: the time that is stored and displayed."""
        ...

    def monotonic(self) -> float:
        """Seconds for durations. They never go back, and include the time that the machine is suspended."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait for `seconds`."""
        ...

    async def wait(self, event: asyncio.Event, seconds: float) -> bool:
        """Wait for the event, at most `seconds`. Returns whether the event is set."""
        ...


class BlockingClock(Protocol):
    """A clock for blocking callers."""

    def now(self) -> float: ...

    def monotonic(self) -> float: ...

    def pause(self, seconds: float) -> None:
        """Block this thread for `seconds`."""
        ...


_monotonic: Final = partial(
    time.clock_gettime, getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
)
"""Includes the time that the machine is suspended, where the system measures it: leases expire meanwhile."""


class SystemClock:
    """The clock of the machine."""

    __slots__ = ()
    now = staticmethod(time.time)
    monotonic = staticmethod(_monotonic)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def pause(self, seconds: float) -> None:
        time.sleep(seconds)

    async def wait(self, event: asyncio.Event, seconds: float) -> bool:
        if event.is_set():
            return True
        try:
            async with asyncio.timeout(seconds):
                await event.wait()
        except TimeoutError:
            return event.is_set()
        return True


class VirtualClock:
    """A clock for tests. It moves only by `set` and `pause`.

    Sleepers wake in the order of their deadlines.
    """

    __slots__ = ("__weakref__", "_order", "_sleepers", "_start", "_time")

    def __init__(self, start: float = 1_800_000_000.0) -> None:
        self._start = start
        self._time = start
        self._order = 0
        self._sleepers: list[tuple[float, int, asyncio.Event]] = []

    def now(self) -> float:
        return self._time

    def monotonic(self) -> float:
        return self._time - self._start

    def set(self, now: float) -> None:
        """Jump to a time, and wake all sleepers with a deadline up to it."""
        self._time = max(self._time, now)
        for sleeper in sorted(self._sleepers):
            if sleeper[0] <= self._time:
                self._sleepers.remove(sleeper)
                sleeper[2].set()

    def pause(self, seconds: float) -> None:
        """Moves the clock itself: while the caller blocks, no other code can."""
        self.set(self._time + max(0.0, seconds))

    def next_wake(self) -> float | None:
        """The earliest deadline of a sleeper."""
        return min((deadline for deadline, _, _ in self._sleepers), default=None)

    async def sleep(self, seconds: float) -> None:
        await self.wait(asyncio.Event(), seconds)

    async def wait(self, event: asyncio.Event, seconds: float) -> bool:
        if event.is_set():
            return True
        due = asyncio.Event()
        self._order += 1
        sleeper = (self._time + max(0.0, seconds), self._order, due)
        self._sleepers.append(sleeper)
        waits = [asyncio.ensure_future(due.wait()), asyncio.ensure_future(event.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            if sleeper in self._sleepers:
                self._sleepers.remove(sleeper)
        return event.is_set()
