"""The rate at which the tasks of a worker pool end.

Promises: time in which the pool is empty does not count, so a pause does not lower the rate. Never: a rate
from before a long pause, or from a moment too short to judge: it has seen many ends, or much time.
"""

from __future__ import annotations

from typing import Final

WINDOW_SECONDS: Final = 0.1
"""The rate is that of the last window: of this much time with tasks, or less if `ENDS_ENOUGH` came before."""
ENDS_ENOUGH: Final = 200
"""This many ends show a rate. While tasks take microseconds the pool is empty for most of the time: a window
of `WINDOW_SECONDS` then takes a third of a second, and until the first rate is known, claims are small."""
FORGET_SECONDS: Final = 1.0
"""After a pause of this length the next tasks may be of another kind: the rate is not known."""


class Pace:
    """Counts ends. All times are of one monotonic clock."""

    __slots__ = ("_began_at", "_ended_at", "_per_second", "_seconds", "ends")

    def __init__(self) -> None:
        self.ends = 0
        """Ends in this window. The pool counts them here."""
        self._seconds = 0.0
        """Time of this window before `_began_at`."""
        self._began_at: float | None = None
        """Since when the pool has had tasks. None: it is empty."""
        self._ended_at = float("-inf")
        self._per_second: float | None = None

    def begin(self, now: float) -> None:
        """The pool gets tasks after it was empty."""
        if now - self._ended_at > FORGET_SECONDS:
            self.ends, self._seconds, self._per_second = 0, 0.0, None
        self._began_at = now

    def end(self, now: float) -> None:
        """The last task of the pool has ended."""
        if self._began_at is not None:
            self._seconds += now - self._began_at
            self._began_at, self._ended_at = None, now

    def per_second(self, now: float) -> float | None:
        """The rate. None: not known yet."""
        seconds = self._seconds + (0.0 if self._began_at is None else now - self._began_at)
        if seconds >= WINDOW_SECONDS or (self.ends >= ENDS_ENOUGH and seconds > 0.0):
            self._per_second = self.ends / seconds
            self.ends, self._seconds = 0, 0.0
            self._began_at = None if self._began_at is None else now
        return self._per_second
