"""Scan floors: index values below which the last scan found only dead entries.

While an old snapshot is open, PostgreSQL cannot remove the index entries of tasks that left the index. A scan
from the front steps over all of them, so each claim would be slower than the one before. A scan therefore
remembers the value below which it found no task, and the next scan starts there.

A floor is a hint. A task that arrives below it (an enqueue in a transaction that took long to commit, a task
that was unparked) is found by the next scan from the front. That scan is due after a multiple of its
duration, so such scans cost a small share of the time, whatever the number of dead entries. Without an old
snapshot a scan takes milliseconds, and the wait is short.

Promises: no row waits below a floor for more than `LONGEST_SECONDS` and one scan. Never: more than one
floor for each key.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from typing import Final, TypeAlias

WORTH: Final = 60.0
"""The result of a scan from the front is used for this multiple of its duration."""
LONGEST_SECONDS: Final = 5.0
CHEAP_SECONDS: Final = 0.02
"""A scan that is shorter may be repeated at any time."""
SLACK_SECONDS: Final = 0.5
"""A task that is due now may become visible this much later, when its transaction commits."""
Place: TypeAlias = tuple[float, int]
"""A value of the index, and a number that orders equal values."""
FRONT: Final[Place] = (-math.inf, 0)


class _Floor:
    __slots__ = ("at", "took_seconds", "until")

    def __init__(self, at: Place, took_seconds: float, until: float) -> None:
        self.at = at
        self.took_seconds = took_seconds
        self.until = until


class Floors:
    """The floors of one process."""

    __slots__ = ("_floors", "_monotonic")

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._floors: dict[Hashable, _Floor] = {}

    def start(self, key: Hashable, *, unless_cheap: bool = False) -> Place:
        """Where to start a scan: at the floor, or at the front if that is due. `unless_cheap`: also at the
        front if that scan is short."""
        floor = self._floors.get(key)
        if floor is None or self._monotonic() >= floor.until:
            return FRONT
        return FRONT if unless_cheap and floor.took_seconds < CHEAP_SECONDS else floor.at

    def learn(
        self, key: Hashable, *, start: Place, nothing_below: Place, started_at: float
    ) -> None:
        """Stores the result of a scan from `start`. `started_at`: the monotonic time of its beginning."""
        if start == FRONT:
            now = self._monotonic()
            took_seconds = now - started_at
            until = now + min(took_seconds * WORTH, LONGEST_SECONDS)
            self._floors[key] = _Floor(nothing_below, took_seconds, until)
        elif (floor := self._floors.get(key)) is not None:
            floor.at = max(floor.at, nothing_below)

    def holds_for(self, key: Hashable) -> float:
        """Seconds for which scans start at the floor."""
        floor = self._floors.get(key)
        return 0.0 if floor is None else max(0.0, floor.until - self._monotonic())

    def distrust(self) -> None:
        """A task may have arrived below a floor: short scans start at the front again."""
        for floor in self._floors.values():
            if floor.took_seconds < CHEAP_SECONDS:
                floor.until = -math.inf

    def forget(self) -> None:
        """Drops all floors: the scans search for other types now."""
        self._floors.clear()
