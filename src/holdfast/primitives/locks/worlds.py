"""Locks in memory, shared by all of a process that connect under one name.

A lock that its own process does not see excludes nothing, so `memory://NAME` is one set of locks for the
whole process, as a file is for the whole host. Fences never fall, so a set stays until the process ends. A
clock that is given (virtual time) has sets of its own. Never: shared with a forked child, another process.
"""

from __future__ import annotations

import threading
import weakref
from typing import Final, NamedTuple

from holdfast.bus.local import LocalBus
from holdfast.clock import Clock, SystemClock
from holdfast.forks import Unmoved, follow
from holdfast.primitives.locks.backend import MemoryBackend

SCHEME: Final = "memory://"


class World(NamedTuple):
    backend: MemoryBackend
    bus: LocalBus


class Worlds(Unmoved):
    """By clock and name."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._real: dict[str, World] = {}
        self._virtual: weakref.WeakKeyDictionary[Clock, dict[str, World]] = (
            weakref.WeakKeyDictionary()
        )
        follow(self)

    def start_over(self) -> None:
        self.__init__()  # type: ignore[misc]

    def get(self, name: str, clock: Clock) -> World:
        with self._mutex:
            is_real = isinstance(clock, SystemClock)
            worlds = self._real if is_real else self._virtual.setdefault(clock, {})
            if name not in worlds:
                bus = LocalBus()
                worlds[name] = World(MemoryBackend(clock, bus), bus)
            return worlds[name]


_worlds: Final = Worlds()
"""Global because what it stands for, this process, is."""


def world(url: str, clock: Clock) -> World:
    """`memory://`, `memory://NAME`."""
    return _worlds.get(url.removeprefix(SCHEME), clock)
