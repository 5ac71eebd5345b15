"""Verdicts: pure functions over samples."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

GROWTH_MAX = 0.05
"""A larger growth from the second quarter to the last is not flat."""
NOISE = {
    "own_mb": 2.0,
    "rss_mb": 2.0,
    "blocks": 4_000.0,
    "tasks": 5.0,
    "files": 3.0,
    "threads": 3.0,
}
"""Noise of a figure: allocators round, and samples fall at different points of a round."""


class Growth(NamedTuple):
    """A figure early and late."""

    early: float
    late: float
    is_flat: bool


def growth(values: Sequence[float], figure: str) -> Growth:
    """Compares the medians of the second and the last quarter."""
    n = len(values)
    if n < 8:
        raise ValueError(f"{n} samples are too few for a verdict")
    early, late = median(values[n // 4 : n // 2]), median(values[3 * n // 4 :])
    allowed = max(early * GROWTH_MAX, NOISE[figure])
    return Growth(early, late, late - early <= allowed)


def per_hour(seconds: Sequence[float], values: Sequence[float]) -> float:
    """The slope of the line through the samples after the first quarter, for an hour."""
    start = len(values) // 4
    x, y = seconds[start:], values[start:]
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    spread = sum((each - mean_x) ** 2 for each in x)
    if not spread:
        return 0.0
    both = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True))
    return both / spread * 3600


def is_level(values: Sequence[float], factor: float = 1.25) -> bool:
    """Whether a size has stopped growing: its maximum in the last third is hardly above that of the
    middle third."""
    third = len(values) // 3
    return max(values[2 * third :]) <= max(values[third : 2 * third]) * factor
