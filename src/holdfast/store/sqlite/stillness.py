"""Keeps every thread out of SQLite while the process forks.

Promises: while it is held, no connection of the driver is inside a call and none has a transaction open.
Never: waits longer than `STILL_SECONDS`; `is_held` says whether it came to that.
"""

from __future__ import annotations

import threading
from typing import Final

STILL_SECONDS: Final = 15.0
"""A writer may have to wait for another process: that long (SQLite's busy timeout) and then some."""


class Stillness:
    """One lock for each thing that a driver does with SQLite."""

    __slots__ = ("_held", "is_held", "opening", "reading", "writing")

    def __init__(self) -> None:
        self.opening = threading.Lock()
        self.writing = threading.Lock()
        self.reading = threading.Lock()
        self._held: list[threading.Lock] = []
        self.is_held = False

    def hold(self) -> None:
        locks = (self.opening, self.writing, self.reading)
        self._held = [lock for lock in locks if lock.acquire(timeout=STILL_SECONDS)]
        self.is_held = len(self._held) == len(locks)

    def release(self) -> None:
        self.is_held = False
        while self._held:
            self._held.pop().release()
