"""A bound on the requests of each credential: a bucket that fills at a steady rate.

Promises: memory is bounded; buckets that are full again are forgotten first. Time is an argument.
"""

from __future__ import annotations

from typing import Final

from holdfast.core.errors import RateLimited

BUCKETS_MAX: Final = 10_000


class RateLimit:
    """The buckets of one gateway."""

    def __init__(self, per_second: float, burst: int, what: str = "requests") -> None:
        """`what` is counted, as the error says."""
        self._what = what
        self._per_second = per_second
        self._burst = float(burst)
        self._buckets: dict[str, tuple[float, float]] = {}
        """For each key: what was left, and when."""

    def take(self, key: str, now: float) -> None:
        """Takes one from the bucket. RateLimited if it is empty."""
        left = self.check(key, now)
        if key not in self._buckets and len(self._buckets) >= BUCKETS_MAX:
            self._forget(now)
        self._buckets[key] = (left - 1.0, now)

    def check(self, key: str, now: float) -> float:
        """What is left in the bucket. RateLimited if it is empty."""
        left, at = self._buckets.get(key, (self._burst, now))
        left = min(self._burst, left + max(0.0, now - at) * self._per_second)
        if left < 1.0:
            wait = (1.0 - left) / self._per_second
            raise RateLimited(
                f"more than {self._per_second:g} {self._what} per second: wait {wait:.3f} s",
                retry_after_seconds=wait,
            )
        return left

    def _forget(self, now: float) -> None:
        """Drops buckets that are full by now; if there is none, the one that was used least recently."""
        full = [
            key
            for key, (left, at) in self._buckets.items()
            if left + (now - at) * self._per_second >= self._burst
        ]
        for key in full or [min(self._buckets, key=lambda key: self._buckets[key][1])]:
            del self._buckets[key]
