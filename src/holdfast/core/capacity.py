"""How many workers, and how much work to hold ahead of them.

Promises: between min and max; grows at once when work waits, shrinks only after quiet time; what is held
ahead is worth at most `AHEAD_SECONDS`, so a dead process holds back little. Pure.
"""

from __future__ import annotations

import math
from typing import Final

AHEAD_SECONDS: Final = 0.05
CLAIM_MAX: Final = 100
"""Larger batches were slower on PostgreSQL."""
AHEAD_MAX: Final = 200
QUIET_SECONDS: Final = 10.0


def ahead(workers: int, mean_seconds: float) -> int:
    """Tasks to hold claimed beyond the free workers, from how long a task takes on average."""
    if workers <= 0:
        return 0
    if mean_seconds <= 0.0:
        return min(workers, AHEAD_MAX)
    return math.floor(min(AHEAD_MAX, workers * AHEAD_SECONDS / mean_seconds))


def target_workers(
    *, current: int, busy: int, waiting: int, minimum: int, maximum: int, quiet_seconds: float
) -> int:
    """The number of workers to have now."""
    wanted = busy + waiting
    if wanted > current:
        return max(minimum, min(maximum, wanted))
    if quiet_seconds >= QUIET_SECONDS:
        return max(minimum, min(current, wanted))
    return max(minimum, min(maximum, current))


def smoothed(mean: float, sample: float, weight: float = 0.1) -> float:
    """A moving average that starts at the first sample."""
    return sample if mean <= 0.0 else mean + weight * (sample - mean)
