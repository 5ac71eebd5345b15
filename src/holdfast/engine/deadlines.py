"""Timeouts of many tasks with one timer.

Promises: whoever is overdue is called back, soon after its deadline; adding and removing cost next to
nothing, since nearly every task ends long before its timeout.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

K = TypeVar("K")


class Deadlines(Generic[K]):
    """Deadlines by key, in the event loop's time."""

    def __init__(self, overdue: Callable[[K], None]) -> None:
        self._overdue = overdue
        self._at: dict[K, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = float("inf")

    def add(self, key: K, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        at = loop.time() + seconds
        self._at[key] = at
        if at < self._timer_at:
            self._set_timer(loop, at)

    def remove(self, key: K) -> None:
        self._at.pop(key, None)

    def clear(self) -> None:
        self._at.clear()
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._timer_at = None, float("inf")

    def _set_timer(self, loop: asyncio.AbstractEventLoop, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = at
        self._timer = loop.call_at(at, self._ring, loop)

    def _ring(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer, self._timer_at = None, float("inf")
        now = loop.time()
        for key in [key for key, at in self._at.items() if at <= now]:
            del self._at[key]
            self._overdue(key)
        if self._at:
            self._set_timer(loop, min(self._at.values()))
