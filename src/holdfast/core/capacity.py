"""The size of a worker pool, and how many tasks to prefetch for it.

Promises: the size stays between minimum and maximum; it grows at once when work waits and shrinks only
after a quiet time; prefetched tasks are worth at most `PREFETCH_SECONDS` of work, so a process that dies
delays few of them. Pure.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

PREFETCH_SECONDS: Final = 0.05
CLAIM_MAX: Final = 100
"""Larger batches were slower on PostgreSQL."""
PREFETCH_MAX: Final = 200
QUIET_SECONDS: Final = 10.0


class WorkerBounds(NamedTuple):
    """The smallest and largest size of a worker pool."""

    minimum: int
    maximum: int


class Scaled(NamedTuple):
    """The result of an operator's request to scale."""

    target: int
    """The number of workers to have now."""
    so_far: int
    """Workers that the operator has added in total. Negative when workers were removed."""
    bounds: WorkerBounds


def scaled(*, current: int, by: int, so_far: int, configured: WorkerBounds) -> Scaled:
    """Adds `by` workers, or removes them when `by` is negative. At least one worker stays. Added workers
    stay while idle. Removed workers do not come back until the operator adds them. When additions and
    removals cancel out, the configured bounds apply again."""
    target = max(1, current + by)
    so_far += target - current
    low, high = configured
    if so_far > 0:
        bounds = WorkerBounds(max(low, target), max(high, target))
    elif so_far < 0:
        bounds = WorkerBounds(min(low, target), min(high, target))
    else:
        bounds = configured
    return Scaled(target, so_far, bounds)


def prefetch(workers: int, mean_seconds: float) -> int:
    """How many tasks to claim beyond the free workers, given the mean duration of a task."""
    if workers <= 0:
        return 0
    if mean_seconds <= 0.0:
        return min(workers, PREFETCH_MAX)
    return math.floor(min(PREFETCH_MAX, workers * PREFETCH_SECONDS / mean_seconds))


def target_workers(
    *, current: int, busy: int, waiting: int, minimum: int, maximum: int, quiet_seconds: float
) -> int:
    """The number of workers to have now."""
    needed = busy + waiting
    if needed > current:
        return max(minimum, min(maximum, needed))
    if quiet_seconds >= QUIET_SECONDS:
        return max(minimum, min(current, needed))
    return max(minimum, min(maximum, current))


def smoothed(mean: float, sample: float, weight: float = 0.1) -> float:
    """A moving average that starts at the first sample."""
    return sample if mean <= 0.0 else mean + weight * (sample - mean)
