"""Group commit for callers: what waits together is written together.

Promises: each caller gets the answer to its own item; nobody waits for a timer: the first item goes at
once, with those of callers that are ready in the same turn of the event loop, and those that come while
it is on its way go together. Never: more than `size` in one batch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

Item = TypeVar("Item")
Answer = TypeVar("Answer")
Flush = Callable[[list[Item]], Awaitable[list[Answer]]]


class Batcher(Generic[Item, Answer]):
    """One batch on its way at a time."""

    def __init__(self, flush: Flush[Item, Answer], size: int) -> None:
        self._flush = flush
        self._size = size
        self._waiting: list[tuple[Item, asyncio.Future[Answer]]] = []
        self._busy = False
        self._tasks: set[asyncio.Task[None]] = set()

    async def put(self, item: Item) -> Answer:
        """Hands the item in and waits for its answer."""
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        if not self._busy:
            self._busy = True
            try:
                await asyncio.sleep(0)
            except asyncio.CancelledError:
                self._waiting.remove((item, future))
                self._next()
                raise
            if len(self._waiting) == 1:
                await self._send([self._waiting.pop()])
            else:
                # Not within this caller, who may give up: the answers of others hang on it.
                self._next()
        return await future

    def _next(self) -> None:
        """The items that gathered meanwhile, as a batch of their own."""
        if not self._waiting:
            self._busy = False
            return
        batch, self._waiting = self._waiting[: self._size], self._waiting[self._size :]
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
