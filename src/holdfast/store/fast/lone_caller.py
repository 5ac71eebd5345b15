"""Whether one caller comes back and back while no other does: then its write may be done on the spot.

Promises: after a few such writes in a row the other tasks of the event loop get a turn.
"""

from __future__ import annotations

import asyncio
import weakref
from typing import Any, Final

STREAK_MAX: Final = 8
"""Writes on the spot in a row before others get a turn."""


class LoneCaller:
    """Remembers the caller of the last write."""

    __slots__ = ("_last", "_streak")

    def __init__(self) -> None:
        self._last: weakref.ref[asyncio.Task[Any]] | None = None
        self._streak = 0

    async def is_back(self) -> bool:
        """Whether the caller is the one that came the last time; asked once for each write."""
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
