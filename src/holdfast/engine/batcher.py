"""Group commit: items that wait at the same time are written together.

Promises: each caller gets the answer to its item. No item waits for a timer: the first one is written at
once, and those that arrive meanwhile form the next batch. While a single caller writes one item after the
other, it is `alone`, and its write may run inline. Never: more than `size` items in a batch; never blocks
the event loop for more than a few inline writes.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Awaitable, Callable
from typing import Any, Final, Generic, TypeAlias, TypeVar

Item = TypeVar("Item")
Answer = TypeVar("Answer")
STREAK_MAX: Final = 8
"""Inline writes in a row before the event loop runs other tasks."""


FlushOne: TypeAlias = Callable[[Item], Awaitable[Answer]]
"""Writes a single item."""
Flush: TypeAlias = Callable[[list[Item]], Awaitable[list[Answer]]]
"""Writes a batch. Returns an answer for each item, in order."""


class Batcher(Generic[Item, Answer]):
    """Writes one batch at a time."""

    def __init__(self, one: FlushOne[Item, Answer], flush: Flush[Item, Answer], size: int) -> None:
        self._one = one
        self._flush = flush
        self._size = size
        self._waiting: list[tuple[Item, asyncio.Future[Answer]]] = []
        self._busy = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._last: weakref.ref[asyncio.Task[Any]] | None = None
        self._streak = 0

    async def put(self, item: Item) -> Answer:
        """Writes the item, alone or in a batch, and returns its answer."""
        if self._streak >= STREAK_MAX:
            self._streak = 0
            await asyncio.sleep(0)
        if self._busy:
            future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
            self._waiting.append((item, future))
            return await future
        self._busy = True
        try:
            return await self._one(item)
        finally:
            self._next()

    def is_alone(self) -> bool:
        """Whether the previous item came from the same caller. Call this once while an item is written."""
        caller = asyncio.current_task()
        alone = self._last is not None and self._last() is caller
        if alone:
            self._streak += 1
        elif caller is not None:
            self._last = weakref.ref(caller)
        return alone

    def _next(self) -> None:
        """Writes the items that arrived meanwhile as a batch, in a separate task: a cancelled caller must not
        cancel the write of others."""
        if not self._waiting:
            self._busy = False
            return
        batch, self._waiting = self._waiting[: self._size], self._waiting[self._size :]
        self._last = None
        task = asyncio.create_task(self._send(batch))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send(self, batch: list[tuple[Item, asyncio.Future[Answer]]]) -> None:
        try:
            answers = await self._flush([item for item, _ in batch])
        except Exception as error:
            for _, future in batch:
                if not future.done():
                    future.set_exception(error)
        else:
            for (_, future), answer in zip(batch, answers, strict=True):
                if not future.done():
                    future.set_result(answer)
        finally:
            self._next()
