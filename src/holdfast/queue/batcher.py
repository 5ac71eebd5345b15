"""Group commit: items that wait at the same time are written together.

Promises: each caller gets the answer to its item; one that is refused does not fail the others. No item
waits for a timer: the first one is written at once, and those that arrive meanwhile form the next batch.
Callers that put one item after the other stay together: those that return at once after a batch are all in
the next one. Never: more than `size` items in a batch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeAlias, TypeVar

from holdfast.core.errors import Forbidden
from holdfast.errors import Conflict, InvalidInput, NotFound, NotSupported, QueueFull

Item = TypeVar("Item")
Answer = TypeVar("Answer")
WriteOne: TypeAlias = Callable[[Item], Awaitable[Answer]]
"""Writes a single item."""
WriteMany: TypeAlias = Callable[[list[Item]], Awaitable[list[Answer]]]
"""Writes a batch, or nothing. Returns an answer for each item, in order."""
REFUSALS: Final = (InvalidInput, Conflict, NotFound, NotSupported, QueueFull, Forbidden)
"""Errors about an item. The batch has changed nothing, and others in it may be fine."""


class Batcher(Generic[Item, Answer]):
    """Writes one batch at a time."""

    def __init__(
        self, one: WriteOne[Item, Answer], many: WriteMany[Item, Answer], size: int
    ) -> None:
        self._one = one
        self._many = many
        self._size = size
        self._waiting: list[tuple[Item, asyncio.Future[Answer]]] = []
        self._busy = False
        self._tasks: set[asyncio.Task[None]] = set()

    async def put(self, item: Item) -> Answer:
        """Writes the item, alone or in a batch, and returns its answer."""
        if self._busy:
            future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
            self._waiting.append((item, future))
            return await future
        self._busy = True
        try:
            return await self._one(item)
        finally:
            self._next()

    def _next(self) -> None:
        """Writes the items that arrived meanwhile as a batch, in a separate task: a cancelled caller must not
        cancel the write of others."""
        if not self._waiting:
            self._busy = False
            return
        batch, self._waiting = self._waiting[: self._size], self._waiting[self._size :]
        task = asyncio.create_task(self._send(batch))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send(self, batch: list[tuple[Item, asyncio.Future[Answer]]]) -> None:
        try:
            await self._write(batch)
        finally:
            # After the callers of this batch, which run in the next turn of the event loop. Without this turn
            # the few items that wait now would be a batch, and so would those of the many callers after it.
            asyncio.get_running_loop().call_soon(self._next)

    async def _write(self, batch: list[tuple[Item, asyncio.Future[Answer]]]) -> None:
        """Writes a batch. If one is refused, the halves go apart, until the refused items are alone."""
        try:
            answers = await self._many([item for item, _ in batch])
        except REFUSALS as error:
            if len(batch) > 1:
                half = len(batch) // 2
                await self._write(batch[:half])
                await self._write(batch[half:])
            else:
                _fail(batch, error)
        except Exception as error:
            _fail(batch, error)
        else:
            for (_, future), answer in zip(batch, answers, strict=True):
                if not future.done():
                    future.set_result(answer)


def _fail(batch: list[tuple[Item, asyncio.Future[Answer]]], error: Exception) -> None:
    for _, future in batch:
        if not future.done():
            future.set_exception(error)
