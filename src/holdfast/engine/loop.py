"""A loop that ticks, sleeps and can be woken.

Promises: the pause after a tick is what the tick returned, or less when woken. During an outage of the
store the loop retries with growing pauses, without a restart. A row that another transaction holds does
not count as an outage. Never: two ticks at once.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable
from typing import Final, TypeVar

from holdfast.clock import Clock
from holdfast.errors import StoreUnavailable
from holdfast.store.port import RowHeld

T = TypeVar("T")
OUTAGE_SECONDS: Final = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
HELD_UP_SECONDS: Final = 1.0
"""The pause after a tick that timed out on a row that another transaction holds."""
log = logging.getLogger("holdfast.engine")


class Loop(ABC):
    """The base of the engine's loops. A loop runs until it is cancelled."""

    name: str

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.outages = 0
        """Tries since the store became unavailable."""
        self.outages_seen = 0
        self.ticking = asyncio.Lock()
        """Held during a tick."""
        self.is_looping = False
        """Whether `run` is active. In tests with virtual time the test calls `step`."""
        self.was_woken = False
        """Whether this tick was caused by `wake`, not by the end of the pause."""
        self._wake = asyncio.Event()
        self.troubles = 0
        """Unexpected errors in parts of ticks."""

    @abstractmethod
    async def tick(self) -> float:
        """One round of work. Returns the seconds until the next tick."""

    def wake(self) -> None:
        """Tick as soon as possible."""
        self._wake.set()

    @property
    def is_woken(self) -> bool:
        return self._wake.is_set()

    async def run(self) -> None:
        """Ticks for ever; the supervisor cancels it."""
        self.is_looping = True
        while True:
            await self.clock.wait(self._wake, await self.step())

    async def guard(self, what: str, part: Awaitable[T]) -> T | None:
        """Runs a part of a tick whose failure must not stop the other parts. An unexpected error is
        logged and counted. A row that another transaction holds is only logged. In both cases the answer
        is None, and a later tick tries again."""
        try:
            return await part
        except RowHeld as error:
            log.warning("%s: %s is held up and tried again later: %s", self.name, what, error)
            return None
        except StoreUnavailable:
            raise
        except Exception:
            self.troubles += 1
            log.exception("%s: %s failed and is tried again later", self.name, what)
            return None

    async def step(self) -> float:
        """One tick; an outage of the store becomes a pause."""
        await self.ticking.acquire()  # `async with` would make two more coroutines for each tick.
        try:
            return await self._step()
        finally:
            self.ticking.release()

    async def _step(self) -> float:
        self.was_woken = self._wake.is_set()
        self._wake.clear()
        try:
            delay = await self.tick()
        except RowHeld as error:
            # Not an outage: another transaction holds a row.
            log.warning("%s: held up, goes on in %g s: %s", self.name, HELD_UP_SECONDS, error)
            return HELD_UP_SECONDS
        except StoreUnavailable as error:
            pause = OUTAGE_SECONDS[min(self.outages, len(OUTAGE_SECONDS) - 1)]
            self.outages += 1
            if self.outages == 1:
                self.outages_seen += 1
                log.warning("%s: the store is unavailable, waiting for it: %s", self.name, error)
            self._wake.clear()
            return pause
        if self.outages:
            log.info("%s: the store is back after %d tries", self.name, self.outages)
            self.outages = 0
        return delay
