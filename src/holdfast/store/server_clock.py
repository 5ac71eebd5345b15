"""The clock of a database server, read at intervals and extrapolated with the local monotonic clock.

Promises: the local wall clock does not affect leases. `now` never goes back and never stands still
(`StoreClock`). A slow reading, which may be wrong by half of its round trip, corrects the offset only as far
as it is certain, and is repeated soon. A reading that came along with another answer is judged in the same
way, by the time between the question and its answer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from holdfast.clock import Clock
from holdfast.store.store_clock import StoreClock

CLOCK_SECONDS: Final = 5.0
SURE_SECONDS: Final = 0.2
AGAIN_SECONDS: Final = 1.0
FIRST_READINGS: Final = 5


class ServerClock:
    """The server clock of one driver."""

    def __init__(self, clock: Clock) -> None:
        self._monotonic = clock.monotonic
        self._was_read = False
        self._due_at = float("-inf")
        self._store_clock = StoreClock(None, clock.monotonic)
        self.now = self._store_clock.now
        self.adopt = self._store_clock.adopt

    def is_due(self) -> bool:
        """Whether the clock must be read again."""
        return self._monotonic() >= self._due_at

    async def read_off(self, ask: Callable[[], Awaitable[float]]) -> None:
        """Reads the clock with `ask`. The first time it reads until a reading is sure, a few times at most:
        no earlier reading bounds the error of a slow one."""
        for _ in range(1 if self._was_read else FIRST_READINGS):
            before = self.before()
            if self.learn(await ask(), before):
                return

    def before(self) -> float:
        """Call this before a question whose answer has the server's time, and then `learn`."""
        return self._monotonic()

    def learn(self, server_time: float, before: float) -> bool:
        """Takes a reading whose question was asked at `before`. Returns whether it is sure."""
        after, clock = self._monotonic(), self._store_clock
        is_sure = after - before <= SURE_SECONDS
        if is_sure or not self._was_read:
            clock.offset = server_time - (before + after) / 2
        else:
            # The server read its clock between `before` and `after`: other offsets are impossible.
            clock.offset = min(max(clock.offset, server_time - after), server_time - before)
        self._was_read = True
        self._due_at = after + (CLOCK_SECONDS if is_sure else AGAIN_SECONDS)
        return is_sure
