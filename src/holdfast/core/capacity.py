"""How many workers, and how much work to hold ahead of them.

Promises: between min and max; grows at once when work waits, shrinks only after quiet time; what is held
ahead is worth at most `AHEAD_SECONDS`, so a dead process holds back little. Pure.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

AHEAD_SECONDS: Final = 0.05
CLAIM_MAX: Final = 100
"""Larger batches were slower on PostgreSQL."""
AHEAD_MAX: Final = 200
QUIET_SECONDS: Final = 10.0


class WorkerBounds(NamedTuple):
    """How many workers a pool keeps at least, and may have at most."""

    minimum: int
    maximum: int


class Scaled(NamedTuple):
    """What an operator's wish comes to."""

    target: int
    """The number of workers to have now."""
    so_far: int
    """What the operator has added in all; negative when workers were taken away."""
    bounds: WorkerBounds


def scaled(*, there: int, by: int, so_far: int, configured: WorkerBounds) -> Scaled:
    """`by` workers more than there are, or fewer, but one at least. Added workers stay while they idle;
    those that were taken away do not come back by themselves. Taking away what was added restores the
    configured bounds."""
    target = max(1, there + by)
    so_far += target - there
    low, high = configured
    if so_far > 0:
        bounds = WorkerBounds(max(low, target), max(high, target))
    elif so_far < 0:
        bounds = WorkerBounds(min(low, target), min(high, target))
    else:
        bounds = configured
    return Scaled(target, so_far, bounds)


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
