"""The event subscriptions of one event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import Any

from holdfast.core.event import Position
from holdfast.queue.looks import Looks


class Subscriptions:
    """The event handlers of one event loop. `feed.py` adds, drains and removes them."""

    __slots__ = ("draining", "looks", "reached", "starting", "tasks")

    def __init__(self) -> None:
        self.looks = Looks()
        self.starting: set[asyncio.Event] = set()
        """Subscriptions that have no position yet. Each event is set when its subscription has one."""
        self.tasks: set[asyncio.Task[None]] = set()
        self.reached: dict[asyncio.Task[None] | None, int] = {}
        """The offset of the last event that each event handler has got."""
        self.draining: Position | None = None
        """Set by a stop: readers end at this position."""

    async def started(self) -> None:
        """Waits until each subscription made so far has its position."""
        await asyncio.gather(*(started.wait() for started in list(self.starting)))

    def is_drained_at(self, position: Position | None) -> bool:
        """Whether the queue is stopping and a reader at this position has read everything."""
        return self.draining is not None and (
            position is None or position.offset >= self.draining.offset
        )


class Unsubscribe:
    """Ends a subscription when called: `unsubscribe()` or `await unsubscribe()`. It may be called twice."""

    __slots__ = ("_task",)

    def __init__(self, task: asyncio.Task[None]) -> None:
        self._task = task

    def __call__(self) -> Unsubscribed:
        self._task.cancel()
        return Unsubscribed(self._task)


class Unsubscribed:
    """Await it to wait until the handler has returned. A handler that awaits its own end does not wait."""

    __slots__ = ("_task",)

    def __init__(self, task: asyncio.Task[None]) -> None:
        self._task = task

    def __await__(self) -> Generator[Any, None, None]:
        if self._task is not asyncio.current_task():
            yield from asyncio.wait([self._task]).__await__()
