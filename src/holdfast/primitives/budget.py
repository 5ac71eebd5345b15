"""A retry budget: many calls share it, so that a backend that is down is not hammered.

Promises: retries are at most the capacity at once, and in the long run at most `per_call` of the calls plus
`per_second`; safe to use from any thread. Never: holds up a first attempt.
"""

from __future__ import annotations

import threading

from holdfast.core.retry import Allowance, Tokens, refilled, spent


class RetryBudget:
    """Full at first."""

    def __init__(
        self, *, capacity: float = 10.0, per_call: float = 0.1, per_second: float = 0.5
    ) -> None:
        self._allowance = Allowance(capacity=capacity, per_call=per_call, per_second=per_second)
        self._tokens: Tokens | None = None
        self._lock = threading.Lock()

    def called(self, now: float) -> None:
        """A call has begun, which adds its share."""
        with self._lock:
            self._tokens = refilled(self._allowance, self._seen(now), now, calls=1)

    def take(self, now: float) -> bool:
        """Whether one more retry is within the budget; it is spent then."""
        with self._lock:
            tokens = refilled(self._allowance, self._seen(now), now)
            left = spent(tokens)
            self._tokens = tokens if left is None else left
            return left is not None

    def _seen(self, now: float) -> Tokens:
        return self._tokens or Tokens(self._allowance.capacity, now)
