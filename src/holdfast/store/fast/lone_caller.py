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


class LoneCaller(threading.local):
    """Remembers the caller of the last write of each thread."""

    def __init__(self) -> None:
        self._last: weakref.ref[asyncio.Task[Any]] | None = None
        self._streak = 0

    async def is_back(self) -> bool:
        """Whether the previous write had the same caller. Call this once for each write."""
        caller = asyncio.current_task()
        if self._last is None or self._last() is not caller:
            self._last = None if caller is None else weakref.ref(caller)
            return False
        self._streak += 1
        if self._streak > STREAK_MAX:
            self._streak = 1
            await asyncio.sleep(0)
        return True

    def others_came(self) -> None:
        self._last = None
