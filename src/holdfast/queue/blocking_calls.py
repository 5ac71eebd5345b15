"""Runs calls of a queue for callers that block, in a thread with an event loop.

Promises: the thread starts with the first call, and again after `close` and in a forked child. A call in a
thread whose event loop runs raises WrongLoop. A process that ends without a `close` sends its last hints.
Never: makes the call before it was refused.
"""

from __future__ import annotations

import asyncio
import atexit
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Final, TypeVar

from holdfast.engine.blocking_group_handle import BlockingGroupHandle
from holdfast.engine.blocking_handle import BlockingTaskHandle
from holdfast.engine.follow_ups import blocking, blocking_group
from holdfast.engine.group_handle import GroupHandle
from holdfast.engine.handle import TaskHandle
from holdfast.errors import NotSupported, WrongLoop
from holdfast.forks import PassiveFollower, follow
from holdfast.portal import Portal

T = TypeVar("T")
R = TypeVar("R")
EXIT_SECONDS: Final = 2.0
"""How long the end of a process waits for the last hints, and for its connections to close."""


class BlockingCalls(PassiveFollower):
    """One for each queue."""

    def __init__(self, last: Callable[[], Awaitable[None]]) -> None:
        """`last` closes the connections of the event loop that it runs in."""
        self._last = last
        self._portal: Portal | None = None
        self._lock = threading.RLock()
        """A signal handler may call in the thread that holds it."""
        follow(self)

    def start_over(self) -> None:
        """In a forked child: another thread of the parent may have held the lock. The portal starts over
        itself."""
        self._lock = threading.RLock()

    def call(self, make: Callable[[], Awaitable[T]]) -> T:
        """Waits for the answer of a call."""
        _refuse_in_loop()
        return self._open().call(make)

    def refuse_tx(self, tx: object) -> None:
        """NotSupported for a connection of the caller: another thread makes the call."""
        if tx is not None:
            raise NotSupported(
                "a blocking call runs in another thread, so a task cannot be enqueued in your transaction "
                "(tx=): await the enqueue in the event loop of the connection, or leave tx out"
            )

    def handle(self, make: Callable[[], Awaitable[TaskHandle[R]]]) -> BlockingTaskHandle[R]:
        """The answer of an enqueue."""
        return blocking(self.call(make), self.call)

    def handles(
        self, make: Callable[[], Awaitable[list[TaskHandle[R]]]]
    ) -> list[BlockingTaskHandle[R]]:
        """The answers of several enqueues."""
        return [blocking(handle, self.call) for handle in self.call(make)]

    def group(self, make: Callable[[], Awaitable[GroupHandle[R]]]) -> BlockingGroupHandle[R]:
        """The answer of an enqueue of a group."""
        return blocking_group(self.call(make), self.call)

    def iterate(self, make: Callable[[], AsyncIterator[T]]) -> Iterator[T]:
        """The items of an async iterator. Leaving the loop early closes it."""
        _refuse_in_loop()
        return self._open().iterate(make)

    def close(self) -> None:
        """Closes the connections and ends the thread. Does nothing if no thread runs."""
        _refuse_in_loop()
        atexit.unregister(self._at_exit)
        with self._lock:
            portal, self._portal = self._portal, None
        if portal is not None and not portal.is_closed:
            try:
                portal.call(self._last)
            finally:
                portal.close()

    def _open(self) -> Portal:
        with self._lock:
            if self._portal is None:
                self._portal = Portal("queue")
                atexit.register(self._at_exit)
            return self._portal

    def _at_exit(self) -> None:
        """The thread of the portal ends with the process, whatever it still has to send."""
        portal = self._portal
        if portal is not None and portal.is_running:
            with suppress(Exception):
                portal.submit(self._last).result(EXIT_SECONDS)


def _refuse_in_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise WrongLoop(
        "this call blocks, and an event loop runs in this thread: await the call of the queue itself, e.g. "
        "`await task.enqueue(...)` in place of `task.enqueue_sync(...)`"
    )
