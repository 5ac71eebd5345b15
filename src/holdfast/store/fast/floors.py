"""From where on it is worth looking: the parts of an index that are known to hold nothing but the dead.

While anybody's old snapshot is held, no index entry of a task that left it can be removed, and a scan from
the front steps over all of them: each claim would be slower than the one before. So a look remembers below
which value it found nothing, and the next one starts there.

A floor is a hint, never the truth: what comes in below it (an enqueue in a transaction that took long to
commit, a task that a limit lets in) is found by the next look from the front. Such a look is due after so
many times its own length, so together they cost a small share of the time, however many dead there are;
without an old snapshot a look takes milliseconds, and nobody waits long.

Promises: no row waits below a floor for more than `LONGEST_SECONDS` and one look. Never: more than one
floor for each key.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from typing import Final, TypeAlias

WORTH: Final = 60.0
"""A look from the front is good for this many times as long as it took."""
LONGEST_SECONDS: Final = 5.0
CHEAP_SECONDS: Final = 0.02
"""Looks that take less may be repeated whenever there is reason to."""
SLACK_SECONDS: Final = 0.5
"""What is due now may become visible this much later: its transaction has to commit."""
Place: TypeAlias = tuple[float, int]
"""A value of the index, and what breaks its links."""
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
        """Where to look from: the floor, or the front when it is time for that, or where that costs
        little."""
        found = self._floors.get(key)
        if found is None or self._monotonic() >= found.until:
            return FRONT
        return FRONT if unless_cheap and found.took_seconds < CHEAP_SECONDS else found.at

    def learn(self, key: Hashable, *, start: Place, nothing_below: Place, begun: float) -> None:
        """What a look from `start` saw, that began at this reading of the monotonic clock."""
        if start == FRONT:
            now = self._monotonic()
            took = now - begun
            until = now + min(took * WORTH, LONGEST_SECONDS)
            self._floors[key] = _Floor(nothing_below, took, until)
        elif (found := self._floors.get(key)) is not None:
            found.at = max(found.at, nothing_below)

    def holds_for(self, key: Hashable) -> float:
        """Seconds for which a look would start at the floor."""
        found = self._floors.get(key)
        return 0.0 if found is None else max(0.0, found.until - self._monotonic())

    def distrust(self) -> None:
        """Something may have come in below: look from the front again, where that costs little."""
        for found in self._floors.values():
            if found.took_seconds < CHEAP_SECONDS:
                found.until = -math.inf

    def forget(self) -> None:
        """The question has changed, so what was seen says nothing."""
        self._floors.clear()
