"""Event handlers of one event loop, and the end of a subscription."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import Any

from holdfast.core.event import Position


class Subscriptions:
    """The event handlers of one event loop. `feed.py` adds, drains and removes them."""

    __slots__ = ("draining", "starting", "tasks")

    def __init__(self) -> None:
        self.starting: set[asyncio.Event] = set()
        """Subscriptions that have no position yet; each event is set once it has one."""
        self.tasks: set[asyncio.Task[None]] = set()
        self.draining: Position | None = None
        """The last position that readers still get; set by a stop."""

    async def started(self) -> None:
        """Returns when each subscription that was made before has its position."""
        await asyncio.gather(*(started.wait() for started in list(self.starting)))

    def is_drained_at(self, position: Position | None) -> bool:
        """Whether a stopping queue has nothing more for a reader at this position."""
        return self.draining is not None and (
            position is None or position.offset >= self.draining.offset
        )


class Unsubscribe:
    """Ends a subscription when called: `unsubscribe()` or `await unsubscribe()`. Calling it twice is fine."""

    __slots__ = ("_task",)

    def __init__(self, task: asyncio.Task[None]) -> None:
        self._task = task

    def __call__(self) -> Unsubscribed:
        self._task.cancel()
        return Unsubscribed(self._task)


class Unsubscribed:
    """Awaited, it returns when the handler runs no more; a handler does not wait for itself."""

    __slots__ = ("_task",)

    def __init__(self, task: asyncio.Task[None]) -> None:
        self._task = task

    def __await__(self) -> Generator[Any, None, None]:
        if self._task is not asyncio.current_task():
            yield from asyncio.wait([self._task]).__await__()
