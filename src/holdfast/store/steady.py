"""The store's time: a clock that never goes back and never stands still.

Promises: `now` follows its source while the source goes forward. When the source is set back, `now` goes on
from where it was, a little slower than real time, until the source has caught up: durations stay durations,
and the distance shrinks by a tenth of the time that passes. `adopt` takes over the time of a process that is
ahead, so that the processes of one store do not judge each other's leases by different clocks.
Never: reads a clock by itself; both sources are given.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

PACE: Final = 0.9
"""How fast `now` goes, in parts of real time, while it is ahead of its source."""
ADOPT_SECONDS_MIN: Final = 1.0
"""Less than this is the ordinary error of reading a clock."""
ADOPT_SECONDS_MAX: Final = 86_400.0
"""A clock that is further ahead is broken, and is not followed."""


class Steady:
    """One for each driver."""

    __slots__ = ("_mark", "_monotonic", "_source")

    def __init__(self, source: Callable[[], float], monotonic: Callable[[], float]) -> None:
        self._source = source
        self._monotonic = monotonic
        self._mark = (float("-inf"), monotonic())
        """The latest answer, and the monotonic time at which it was given."""

    def now(self) -> float:
        mark, at = self._mark
        monotonic = self._monotonic()
        if monotonic > at:
            mark += PACE * (monotonic - at)
        now = self._source()
        if now < mark:
            now = mark
        self._mark = (now, monotonic)
        return now

    def adopt(self, at: float) -> None:
        """Another process of the store says that it is `at`."""
        now = self.now()
        if ADOPT_SECONDS_MIN < at - now <= ADOPT_SECONDS_MAX:
            self._mark = (at, self._mark[1])
