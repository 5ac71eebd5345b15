"""Chance, by name: each concern has a stream of its own, so that one more draw here moves nothing there.

Promises: the same seed and name give the same numbers in every process. Never: `hash()`, the machine's
randomness.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Draw:
    """One stream of chance."""

    __slots__ = ("_name", "_random")

    def __init__(self, seed: int, name: str) -> None:
        self._name = f"{seed}:{name}"
        self._random = random.Random(self._name)

    def stream(self, name: str) -> Draw:
        """A stream of its own below this one."""
        below = Draw.__new__(Draw)
        below._name = f"{self._name}:{name}"
        below._random = random.Random(below._name)
        return below

    def unit(self) -> float:
        """In [0, 1)."""
        return self._random.random()

    def chance(self, probability: float) -> bool:
        return probability > 0.0 and self._random.random() < probability

    def below(self, n: int) -> int:
        """0 to n - 1."""
        return int(self._random.random() * n)

    def between(self, low: float, high: float) -> float:
        return low + (high - low) * self._random.random()

    def whole(self, low: int, high: int) -> int:
        """Low to high, both included."""
        return low + self.below(high - low + 1)

    def pick(self, choices: Sequence[T]) -> T:
        return choices[self.below(len(choices))]

    def wait(self, mean_seconds: float) -> float:
        """Seconds until the next of events that come at random, so many seconds apart on average."""
        return self._random.expovariate(1.0 / mean_seconds)

    def getrandbits(self, k: int, /) -> int:
        return self._random.getrandbits(k)
