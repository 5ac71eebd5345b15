"""Counts the commits of one connection for the event loops that share it.

The data version of SQLite does not count the commits of the connection that reads it, and all event loops of
a process write through one connection.
Promises: `elsewhere` of a loop with a listener changes with every commit of another loop of the process.
Never: calls a listener.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Callable, Collection


class LoopCommits:
    """Only the thread that holds the connection calls `count`. The rest may be called at any time."""

    __slots__ = ("_elsewhere", "listeners")

    def __init__(self) -> None:
        self.listeners: dict[AbstractEventLoop, Callable[[], None]] = {}
        """The function that each loop calls after its own commits."""
        self._elsewhere: dict[AbstractEventLoop, int] = {}

    def listen(self, loop: AbstractEventLoop, listener: Callable[[], None]) -> None:
        self.listeners[loop] = listener

    def drop(self, loops: Collection[AbstractEventLoop]) -> None:
        for loop in loops:
            self.listeners.pop(loop, None)
            self._elsewhere.pop(loop, None)

    def count(self, loops: Collection[AbstractEventLoop | None]) -> None:
        """Counts a commit that these loops share."""
        if len(self.listeners) < 2:
            return
        for loop in list(self.listeners):
            if len(loops) > 1 or loop not in loops:
                self._elsewhere[loop] = self._elsewhere.get(loop, 0) + 1

    def elsewhere(self, loop: AbstractEventLoop) -> int:
        return self._elsewhere.get(loop, 0)
