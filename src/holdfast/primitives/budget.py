"""A retry budget, shared by many calls: it limits the load on a backend that is down.

Promises: at most `capacity` retries at once, and in the long run at most `per_call` for each call plus
`per_second`. Any thread may use it. Never: delays a first attempt.
"""

from __future__ import annotations

import threading

from holdfast.core.retry import Allowance, Tokens, refilled, spent


class RetryBudget:
    """A token bucket for retries; it starts full."""

    def __init__(
        self, *, capacity: float = 10.0, per_call: float = 0.1, per_second: float = 0.5
    ) -> None:
        self._allowance = Allowance(capacity=capacity, per_call=per_call, per_second=per_second)
        self._tokens: Tokens | None = None
        self._lock = threading.Lock()

    def called(self, now: float) -> None:
        """Adds the share of a call that starts now."""
        with self._lock:
            self._tokens = refilled(self._allowance, self._current(now), now, calls=1)

    def take(self, now: float) -> bool:
        """Spends a token for one retry. False if none is left."""
        with self._lock:
            tokens = refilled(self._allowance, self._current(now), now)
            remaining = spent(tokens)
            self._tokens = tokens if remaining is None else remaining
            return remaining is not None

    def _current(self, now: float) -> Tokens:
        return self._tokens or Tokens(self._allowance.capacity, now)
