"""The time of a store that is a server away: read off now and then, carried on by the monotonic clock here.

Promises: a wrong wall clock here judges no lease; `now` never goes back and never stands still (`Steady`);
what was read over a slow way, and so may be wrong by half of it, is believed only as far as it is certain,
and asked for again soon.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from holdfast.clock import Clock
from holdfast.store.steady import Steady

CLOCK_SECONDS: Final = 5.0
SURE_SECONDS: Final = 0.2
AGAIN_SECONDS: Final = 1.0


class ServerClock:
    """One for each driver of a server."""

    def __init__(self, clock: Clock) -> None:
        self._monotonic = clock.monotonic
        self._offset: float | None = None
        self._due_at = float("-inf")
        steady = Steady(self._reading, clock.monotonic)
        self.now = steady.now
        self.adopt = steady.adopt

    def _reading(self) -> float:
        """What the server's clock says, which may be earlier than before."""
        return self._monotonic() + (self._offset or 0.0)

    def is_due(self) -> bool:
        """Whether it is time to read it off."""
        return self._monotonic() >= self._due_at

    async def read_off(self, ask: Callable[[], Awaitable[float]]) -> None:
        before = self._monotonic()
        theirs = await ask()
        after = self._monotonic()
        is_sure = after - before <= SURE_SECONDS
        if is_sure or self._offset is None:
            self._offset = theirs - (before + after) / 2
        else:
            # It was read at some moment in between: what lies outside of that is wrong for certain.
            self._offset = min(max(self._offset, theirs - after), theirs - before)
        self._due_at = after + (CLOCK_SECONDS if is_sure else AGAIN_SECONDS)
