"""The size of a worker pool, and how many tasks to prefetch for it.

Promises: the size stays between minimum and maximum; it grows at once when work waits and shrinks only
after a quiet time; prefetched tasks are worth at most `PREFETCH_SECONDS` of work, by the mean duration of a
task and by the rate at which tasks end, so a process that dies delays few of them, and leaves the others to
processes that are free; large payloads make claims smaller. Pure.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

PREFETCH_SECONDS: Final = 0.05
CLAIM_MAX: Final = 400
"""Tasks of one claim. With fewer, round trips and commits cost more than the tasks."""
LARGE_CLAIM_MAX: Final = 100
"""The same while payloads are of unknown size, or however large they are."""
PREFETCH_MAX: Final = 800
LARGE_PREFETCH_MAX: Final = 200
"""The same as for claims, and while the rate at which tasks end is not known."""
CLAIM_CHARS: Final = 16 * 1024 * 1024
"""Payloads of one claim, in characters, and half of those that are prefetched."""
OFFER_CHARS: Final = 8 * 1024 * 1024
"""Payloads and checkpoints of a claim of more than `LARGE_CLAIM_MAX` tasks by a remote worker, which are one
message."""
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


def prefetch(
    workers: int, mean_seconds: float, *, ends_per_second: float | None, payload_chars: float | None
) -> int:
    """How many tasks to claim beyond the free workers, given the mean duration of a task, the rate at which
    tasks ended lately, and the mean size of a payload. None: not known. Handlers that compute in the event
    loop run one after the other, whatever the number of workers: only the rate shows that."""
    if workers <= 0:
        return 0
    if mean_seconds <= 0.0:
        return min(workers, LARGE_PREFETCH_MAX)
    worth = workers * PREFETCH_SECONDS / mean_seconds
    if ends_per_second is None:
        most = LARGE_PREFETCH_MAX
    else:
        worth = min(worth, ends_per_second * PREFETCH_SECONDS)
        most = _fitting(PREFETCH_MAX, LARGE_PREFETCH_MAX, 2 * CLAIM_CHARS, payload_chars)
    return math.floor(min(most, worth))


def claim_max(payload_chars: float | None) -> int:
    """How many tasks one claim may take, given the mean size of a payload. None: not known."""
    return _fitting(CLAIM_MAX, LARGE_CLAIM_MAX, CLAIM_CHARS, payload_chars)


def offer_max(task_chars: float | None) -> int:
    """The same for a remote worker, given the mean size of payload and checkpoint."""
    return _fitting(CLAIM_MAX, LARGE_CLAIM_MAX, OFFER_CHARS, task_chars)


def is_oversized(tasks: int, chars: int) -> bool:
    """Whether tasks of a remote worker with these characters together must not be one message."""
    return tasks > LARGE_CLAIM_MAX and chars > OFFER_CHARS


def _fitting(most: int, least: int, chars: int, payload_chars: float | None) -> int:
    """The tasks whose payloads have this many characters together, within the bounds."""
    if payload_chars is None:
        return least
    return max(least, min(most, math.floor(chars / max(1.0, payload_chars))))


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
