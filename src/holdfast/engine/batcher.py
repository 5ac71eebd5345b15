"""Group commit for callers: what waits together is written together.

Promises: each caller gets the answer to its own item; nobody waits for a timer: the first item goes at
once, and those that come while it is on its way go together. A caller that comes back and back while
nobody else does is `alone`, so that the write may be done on the spot. Never: more than `size` in one
batch; never keeps the event loop from others for more than a few writes.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Awaitable, Callable
from typing import Any, Final, Generic, TypeAlias, TypeVar

Item = TypeVar("Item")
Answer = TypeVar("Answer")
STREAK_MAX: Final = 8
"""Writes on the spot in a row before others get a turn."""


FlushOne: TypeAlias = Callable[[Item], Awaitable[Answer]]
"""Writes a single item."""
Flush: TypeAlias = Callable[[list[Item]], Awaitable[list[Answer]]]
"""Writes a batch; an answer for each, in order."""


class Batcher(Generic[Item, Answer]):
    """One batch on its way at a time."""

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
        """Hands the item in and waits for its answer."""
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
        """Whether the caller is the one that came the last time; asked once, while its item is written."""
        caller = asyncio.current_task()
        alone = self._last is not None and self._last() is caller
        if alone:
            self._streak += 1
        elif caller is not None:
            self._last = weakref.ref(caller)
        return alone

    def _next(self) -> None:
        """The items that gathered meanwhile, as a batch of their own: not within the first caller, who
        may give up; the answers of others hang on it."""
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
