"""Random numbers of simulated hosts: named streams of one seed, so that one host does not change another."""

from __future__ import annotations

import random  # noqa: TID251 - seeded


class Dice:
    """One stream."""

    __slots__ = ("_name", "_random")

    def __init__(self, seed: int | str, name: str = "") -> None:
        self._name = f"{seed}:{name}"
        self._random = random.Random(self._name)

    def stream(self, name: str) -> Dice:
        """An independent stream, named below this one."""
        return Dice(self._name, name)

    def unit(self) -> float:
        """A number in [0, 1)."""
        return self._random.random()

    def chance(self, probability: float) -> bool:
        return probability > 0.0 and self._random.random() < probability

    def between(self, low: float, high: float) -> float:
        return low + (high - low) * self._random.random()

    def below(self, n: int) -> int:
        """A whole number from 0 to n - 1."""
        return int(self._random.random() * n)

    def wait(self, mean_seconds: float) -> float:
        """Seconds until the next event of a Poisson process with this mean."""
        return self._random.expovariate(1.0 / mean_seconds)
