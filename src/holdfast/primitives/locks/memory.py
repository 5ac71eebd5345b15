"""Locks in memory, by name: every connection of a process to `memory://NAME` uses the same locks.

A name is kept until the process ends, because fences must not start over. Each virtual clock has separate
names. Never: shared with a forked child, which is another process.
"""

from __future__ import annotations

import threading
import weakref
from typing import Final, NamedTuple

from holdfast.bus.local import LocalBus
from holdfast.clock import Clock, SystemClock
from holdfast.forks import PassiveFollower, follow
from holdfast.primitives.locks.backend import MemoryBackend


class MemorySpace(NamedTuple):
    """The locks of one name."""

    backend: MemoryBackend
    bus: LocalBus


class MemorySpaces(PassiveFollower):
    """All names of this process, by clock."""

    def __init__(self) -> None:
        self.start_over()
        follow(self)

    def start_over(self) -> None:
        """No names, and a free mutex: a thread of the parent may hold the old one."""
        self._mutex = threading.Lock()
        self._real: dict[str, MemorySpace] = {}
        self._virtual: weakref.WeakKeyDictionary[Clock, dict[str, MemorySpace]] = (
            weakref.WeakKeyDictionary()
        )

    def get(self, name: str, clock: Clock) -> MemorySpace:
        with self._mutex:
            is_real = isinstance(clock, SystemClock)
            spaces = self._real if is_real else self._virtual.setdefault(clock, {})
            if name not in spaces:
                bus = LocalBus()
                spaces[name] = MemorySpace(MemoryBackend(clock, bus), bus)
            return spaces[name]


_spaces: Final = MemorySpaces()
"""Global, because it stands for the memory of this process."""


def memory_space(name: str, clock: Clock) -> MemorySpace:
    """The locks of `memory://NAME`; the name may be empty."""
    return _spaces.get(name, clock)
