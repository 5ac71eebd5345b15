"""Group commit: items that wait at the same time are written together.

Promises: each caller gets the answer to its item; one that is refused does not fail the others. No item
waits for a timer: the first one is written at once, and those that arrive meanwhile form the next batch.
Callers that put one item after the other stay together: those that return at once after a batch are all in
the next one. If many of them wait for a quick store, they form two batches whose writes overlap: while one is
written, the callers of the other prepare their next items. An item whose caller is cancelled before its batch
begins is dropped: a caller that gives up and asks again leaves no copies behind. Never: more than `size`
items in a batch, more than two batches at once.
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
SPLIT_MIN: Final = 32
"""Fewer waiting items are one batch. Each batch has a fixed cost in the store."""
QUICK_SECONDS: Final = 0.001
"""A write that takes longer waits for the disk, which syncs for one batch after the other. Then one batch at
a time, with more items, is faster. Beside another write it may take twice as long, because it waits for both
syncs."""
REFUSALS: Final = (InvalidInput, Conflict, NotFound, NotSupported, QueueFull, Forbidden)
"""Errors about an item. The batch has changed nothing, and others in it may be fine."""


class Batcher(Generic[Item, Answer]):
    """Writes one batch at a time, or two at most."""

    def __init__(
        self,
        one: WriteOne[Item, Answer],
        many: WriteMany[Item, Answer],
        size: int,
        *,
        monotonic: Callable[[], float] | None = None,
    ) -> None:
        """With a clock, two batches may be written at the same time while writes are quick."""
        self._one = one
        self._many = many
        self._size = size
        self._waiting: list[tuple[Item, asyncio.Future[Answer]]] = []
        self._monotonic = monotonic
        self._busy = False
        """Something is written, so further items wait for a batch."""
        self._batches_in_flight = 0
        self._items_in_flight = 0
        """Of these batches."""
        self._may_overlap = False
        """Whether a second batch may be written beside one. The last one did not wait for the disk."""
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
            self.ended()

    def begin(self) -> bool:
        """Whether nothing is being written. Then the caller writes an item without `put`, and calls `ended`.
        Items that arrive meanwhile wait for a batch."""
        is_free, self._busy = not self._busy, True
        return is_free

    def ended(self) -> None:
        """The write of a single item has ended."""
        if self._waiting:
            self._next()
        else:
            self._busy = self._batches_in_flight > 0

    def _next(self) -> None:
        """Writes the items that arrived meanwhile and whose callers still wait."""
        self._waiting = [each for each in self._waiting if not each[1].done()]
        count = self._size_of_next()
        if not count:
            self._busy = self._batches_in_flight > 0
            return
        batch, self._waiting = self._waiting[:count], self._waiting[count:]
        self._batches_in_flight += 1
        self._items_in_flight += count
        # In a separate task: a cancelled caller must not cancel the write of others.
        task = asyncio.create_task(self._send(batch))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if self._waiting and self._may_overlap:
            asyncio.get_running_loop().call_soon(self._next)

    def _size_of_next(self) -> int:
        """How many of the waiting items to write now."""
        waiting = min(len(self._waiting), self._size)
        if self._batches_in_flight == 0:
            splits = self._may_overlap and waiting >= SPLIT_MIN
            return waiting // 2 if splits else waiting
        # A few items wait for those whose callers are about to return: the batches stay of one size.
        is_free = self._may_overlap and self._batches_in_flight == 1
        return waiting if is_free and 2 * waiting >= self._items_in_flight else 0

    async def _send(self, batch: list[tuple[Item, asyncio.Future[Answer]]]) -> None:
        began_at = self._monotonic() if self._monotonic is not None else 0.0
        try:
            await self._write(batch)
        finally:
            if self._monotonic is not None:
                self._may_overlap = (
                    self._monotonic() - began_at < QUICK_SECONDS * self._batches_in_flight
                )
            self._batches_in_flight -= 1
            self._items_in_flight -= len(batch)
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
