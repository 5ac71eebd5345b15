"""Named random streams, one for each concern: a draw from one does not change the others.

Promises: the same seed and name give the same numbers in every process. Never: uses `hash()` or the
machine's randomness.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from math import log
from typing import TypeVar

T = TypeVar("T")


class Draw:
    """One random stream."""

    __slots__ = ("_name", "_random")

    def __init__(self, seed: int, name: str) -> None:
        self._name = f"{seed}:{name}"
        self._random = random.Random(self._name)

    def stream(self, name: str) -> Draw:
        """An independent stream, named below this one."""
        stream = Draw.__new__(Draw)
        stream._name = f"{self._name}:{name}"
        stream._random = random.Random(stream._name)
        return stream

    def unit(self) -> float:
        """A number in [0, 1)."""
        return self._random.random()

    def chance(self, probability: float) -> bool:
        return probability > 0.0 and self._random.random() < probability

    def below(self, n: int) -> int:
        """A whole number from 0 to n - 1."""
        return int(self._random.random() * n)

    def between(self, low: float, high: float) -> float:
        return low + (high - low) * self._random.random()

    def whole(self, low: int, high: int) -> int:
        """A whole number from low to high, both included."""
        return low + self.below(high - low + 1)

    def pick(self, choices: Sequence[T]) -> T:
        return choices[self.below(len(choices))]

    def wait(self, mean_seconds: float) -> float:
        """Seconds until the next event of a Poisson process with this mean."""
        # What `Random.expovariate(1.0 / mean_seconds)` computes, in half of the time.
        return -log(1.0 - self._random.random()) / (1.0 / mean_seconds)

    def getrandbits(self, k: int, /) -> int:
        return self._random.getrandbits(k)
