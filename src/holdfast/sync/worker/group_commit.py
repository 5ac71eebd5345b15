"""Group commit across connections: messages of all workers that wait at the same time share a transaction.

Promises: an answer follows the commit of its message. Messages of one worker are applied in the order in
which they were put. A message that the store cannot apply fails alone, not the messages beside it.
Never: more than `BATCH_MAX` messages in a transaction.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import groupby
from typing import Final, TypeAlias

from holdfast.clock import Clock
from holdfast.errors import StoreUnavailable
from holdfast.sync.worker.messages import Inbound, MessageAnswer

BATCH_MAX: Final = 200
"""Messages in one transaction."""
GATHER_SECONDS: Final = 0.002
"""How long a message waits for others to share its commit while no commit is under way."""

Apply: TypeAlias = Callable[[Sequence[Inbound]], Awaitable[list[MessageAnswer]]]
_Waiting: TypeAlias = tuple[Inbound, "asyncio.Future[MessageAnswer]"]


class GroupCommit:
    """Collects messages and applies them, one transaction at a time."""

    def __init__(
        self, apply: Apply, clock: Clock, *, gather_seconds: float = GATHER_SECONDS
    ) -> None:
        self._apply = apply
        self._clock = clock
        self._gather_seconds = gather_seconds
        self._waiting: list[_Waiting] = []
        self._full = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def put(self, message: Inbound) -> asyncio.Future[MessageAnswer]:
        """Queues a message. The future ends after its commit."""
        future: asyncio.Future[MessageAnswer] = asyncio.get_running_loop().create_future()
        self._waiting.append((message, future))
        if len(self._waiting) >= BATCH_MAX:
            self._full.set()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="holdfast-group-commit")
        return future

    async def close(self) -> None:
        """Waits for what was put."""
        if self._task is not None:
            await self._task

    async def _run(self) -> None:
        """Applies batches until nothing waits. What arrives during a commit forms the next batch, so only the
        first batch waits for others."""
        if self._gather_seconds:
            await self._clock.wait(self._full, self._gather_seconds)
        while self._waiting:
            batch, self._waiting = self._waiting[:BATCH_MAX], self._waiting[BATCH_MAX:]
            if len(self._waiting) < BATCH_MAX:
                self._full.clear()
            await self._send(batch)

    async def _send(self, batch: list[_Waiting]) -> None:
        try:
            answers = await self._apply([message for message, _ in batch])
        except StoreUnavailable as error:
            # No acknowledgement: the workers keep the messages and send them again.
            _fail(batch, error)
        except Exception as error:
            await self._apart(batch, error)
        else:
            for (_, future), answer in zip(batch, answers, strict=True):
                if not future.done():
                    future.set_result(answer)

    async def _apart(self, batch: list[_Waiting], error: Exception) -> None:
        """Applies the messages of each worker separately after a failure, so that only the worker whose
        message causes it is affected."""
        by_node = sorted(
            batch, key=lambda item: item[0].node
        )  # stable: keeps the order of a worker
        groups = [list(group) for _, group in groupby(by_node, key=lambda item: item[0].node)]
        if len(groups) == 1:
            _fail(batch, error)
            return
        for group in groups:
            await self._send(group)


def _fail(batch: list[_Waiting], error: Exception) -> None:
    for _, future in batch:
        if not future.done():
            future.set_exception(error)
