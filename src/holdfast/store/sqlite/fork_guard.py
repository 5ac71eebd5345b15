"""Keeps every thread out of SQLite while the process forks.

Promises: while it is held, no connection of the driver is in a call or has an open transaction.
Never: waits longer than `LOCK_WAIT_SECONDS` for a lock. `is_held` says whether it got all of them.
"""

from __future__ import annotations

import threading
from typing import Final

LOCK_WAIT_SECONDS: Final = 15.0
"""Longer than the busy timeout of SQLite, for which a writer may wait for another process."""


class ForkGuard:
    """One lock for each kind of call that a driver makes to SQLite."""

    __slots__ = ("_held", "is_held", "opening", "reading", "writing")

    def __init__(self) -> None:
        self.opening = threading.Lock()
        self.writing = threading.Lock()
        self.reading = threading.Lock()
        self._held: list[threading.Lock] = []
        self.is_held = False

    def hold(self) -> None:
        locks = (self.opening, self.writing, self.reading)
        self._held = [lock for lock in locks if lock.acquire(timeout=LOCK_WAIT_SECONDS)]
        self.is_held = len(self._held) == len(locks)

    def release(self) -> None:
        self.is_held = False
        while self._held:
            self._held.pop().release()
