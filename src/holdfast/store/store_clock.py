"""The store's time: a clock that never goes back and never stands still.

Promises: `now` follows its source while the source goes forward. When the source is set back, `now` continues
from its last value at 0.9 of real time, until the source has caught up. Durations therefore stay close to
real ones, and the gap shrinks by a tenth of the time that passes. `adopt` moves the clock forward to that of
another process, so processes of one store agree on whether a lease has ended.
Never: reads a system clock. Both clocks are passed in.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

PACE: Final = 0.9
"""The speed of `now`, relative to real time, while it is ahead of its source."""
ADOPT_SECONDS_MIN: Final = 1.0
"""A smaller difference is within the normal error of reading a clock."""
ADOPT_SECONDS_MAX: Final = 86_400.0
"""A clock that is further ahead is considered broken and is not adopted."""


class StoreClock:
    """The clock of one driver."""

    __slots__ = ("_adopted", "_mark", "_monotonic", "_source", "offset")

    def __init__(self, source: Callable[[], float] | None, monotonic: Callable[[], float]) -> None:
        """`source`: None for the monotonic time plus `offset`, without a call."""
        self._source = source
        self._monotonic = monotonic
        self.offset = 0.0
        """Of a clock elsewhere. It may be set lower, as a source may be set back."""
        self._mark = (float("-inf"), monotonic())
        """The latest value of `now`, and the monotonic time of that call. Of threads that ask at the same
        time the last one writes it."""
        self._adopted: tuple[float, float] | None = None
        """The latest time of another process, and when it was adopted. Only `adopt` writes it: a `now` that
        began before must not undo it."""

    def now(self) -> float:
        mark, at = self._mark
        monotonic = self._monotonic()
        if monotonic > at:
            mark += PACE * (monotonic - at)
        now = monotonic + self.offset if self._source is None else self._source()
        if now < mark:
            now = mark
        if self._adopted is not None:
            now = max(now, self._adopted[0] + PACE * (monotonic - self._adopted[1]))
        self._mark = (now, monotonic)
        return now

    def adopt(self, at: float) -> None:
        """Moves the clock forward to `at`, the time of another process, if that is plausible."""
        now = self.now()
        if ADOPT_SECONDS_MIN < at - now <= ADOPT_SECONDS_MAX:
            self._adopted = (at, self._mark[1])
