"""Timeouts of many tasks with one timer.

Promises: the callback runs soon after a deadline. Adding and removing a deadline is cheap, since nearly every
task ends long before its timeout.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

K = TypeVar("K")


class Deadlines(Generic[K]):
    """Deadlines by key, on the injected clock. Under virtual time the test calls `ring`."""

    def __init__(self, overdue: Callable[[K], None], monotonic: Callable[[], float]) -> None:
        self._overdue = overdue
        self._monotonic = monotonic
        self._at: dict[K, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = float("inf")

    def add(self, key: K, seconds: float) -> None:
        at = self._monotonic() + seconds
        self._at[key] = at
        if at < self._timer_at:
            self._set_timer(at)

    def remove(self, key: K) -> None:
        self._at.pop(key, None)

    def clear(self) -> None:
        self._at.clear()
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._timer_at = None, float("inf")

    def next_at(self) -> float | None:
        """The earliest deadline."""
        return min(self._at.values(), default=None)

    def _set_timer(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = at
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(max(0.0, at - self._monotonic()), self.ring)

    def ring(self) -> None:
        """Runs the callback for every key that is overdue."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._timer_at = None, float("inf")
        now = self._monotonic()
        for key in [key for key, at in self._at.items() if at <= now]:
            del self._at[key]
            self._overdue(key)
        if self._at:
            self._set_timer(min(self._at.values()))
