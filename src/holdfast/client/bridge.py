"""How blocking clients use the client for asyncio: one thread with an event loop for all of them.

Promises: any thread may call. A fork starts over in the child. The thread ends with the interpreter.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from types import TracebackType
from typing import Self, TypeVar

from holdfast.client.client import Change, TaskEdit
from holdfast.client.models import TaskView
from holdfast.client.watch import Watch, WatchItem, WatchState
from holdfast.portal import Portal

T = TypeVar("T")


class Bridge:
    """The event loop of a blocking client."""

    def __init__(self) -> None:
        self._portal = Portal("client")

    def call(self, make: Callable[[], Awaitable[T]]) -> T:
        return self._portal.call(make)

    def iterate(self, make: Callable[[], AsyncIterator[T]]) -> Iterator[T]:
        """The items of an async iterator. Leaving the loop early closes it."""
        return self._portal.iterate(make)

    def close(self, last: Callable[[], Awaitable[None]]) -> None:
        """Runs `last`, then ends the loop. Repeated calls do nothing."""
        if not self._portal.is_closed:
            self.call(last)
            self._portal.close()


async def _next(items: Watch) -> WatchItem | None:
    return await anext(items, None)


def apart(change: Change) -> Change:
    """The function in a thread apart: it may use the blocking client, which the event loop could not wait
    for."""

    async def changed(task: TaskView) -> TaskEdit | None:
        edit = await asyncio.to_thread(change, task)
        return await edit if isinstance(edit, Awaitable) else edit

    return changed


class BlockingWatch:
    """One subscription: see `Watch`. Iterate it in `with`, or `close` it."""

    def __init__(self, bridge: Bridge, watch: Watch) -> None:
        self._bridge = bridge
        self._watch = watch

    @property
    def position(self) -> str | None:
        """Everything up to here was shown, and the next item was asked for."""
        return self._watch.position

    @property
    def state(self) -> WatchState:
        return self._watch.state

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> WatchItem:
        item = self._bridge.call(lambda: _next(self._watch))
        if not isinstance(item, WatchItem):
            raise StopIteration
        return item

    def close(self) -> None:
        self._bridge.call(self._watch.aclose)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
