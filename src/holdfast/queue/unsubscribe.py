"""The end of a subscription."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import Any


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
