"""Detects a single caller that inserts one task after the other: its writes may run inline.

Promises: after a few inline writes in a row the event loop runs other tasks. The event loops of a process,
which run in separate threads and share the store, do not affect each other.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from typing import Any, Final

STREAK_MAX: Final = 8
"""Inline writes in a row before the event loop runs other tasks."""


class _LastWrite:
    """The last write of one thread."""

    __slots__ = ("caller", "streak")

    def __init__(self) -> None:
        self.caller: weakref.ref[asyncio.Task[Any]] | None = None
        self.streak = 0


class _Thread(threading.local):
    def __init__(self) -> None:
        self.last = _LastWrite()


class LoneCaller:
    """Remembers the caller of the last write of each thread."""

    __slots__ = ("_thread",)

    def __init__(self) -> None:
        self._thread = _Thread()

    def is_back(self) -> bool:
        """Whether the previous write had the same caller. Call this once for each write."""
        last = self._thread.last
        caller = asyncio.current_task(asyncio.get_running_loop())
        if last.caller is None or last.caller() is not caller:
            last.caller = None if caller is None else weakref.ref(caller)
            return False
        last.streak += 1
        return True

    def is_tiring(self) -> bool:
        """Whether the event loop must run other tasks before this write of a caller that is back."""
        last = self._thread.last
        if last.streak <= STREAK_MAX:
            return False
        last.streak = 1
        return True

    def others_came(self) -> None:
        self._thread.last.caller = None
