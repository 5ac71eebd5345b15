"""Group commit across connections: messages of all workers that wait at the same time share a transaction.

Promises: an answer follows the commit of its message. Messages of one worker are applied in the order in
which they were put. A message that the store cannot apply fails alone, not the messages beside it. A worker
whose message needs a row that another transaction holds waits for it, and no other worker does.
Never: more than `BATCH_MAX` messages in a transaction.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import groupby
from typing import Final, TypeAlias

from holdfast.clock import Clock
from holdfast.core.errors import GatewayUnavailable
from holdfast.core.worker.wire import change_count
from holdfast.errors import StoreUnavailable
from holdfast.store.port import RowHeld
from holdfast.sync.worker.messages import Inbound, MessageAnswer

BATCH_MAX: Final = 200
"""Messages in one transaction."""
HELD_SECONDS: Final = 0.1
"""Pause before the next try of messages that need a held row."""
HELD_TRIES: Final = 2
"""Such tries at once: each occupies a connection while it waits."""
GATHER_SECONDS: Final = 0.002
"""How long a message waits for others to share its commit while no commit is under way."""
GATHER_CHANGES: Final = 50
"""A message with this number of changes is worth a commit: it does not wait, as its worker waits for it."""

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
        self._held: dict[str, list[_Waiting]] = {}
        """The messages of workers that wait for a held row, by node."""
        self._retries: dict[asyncio.Task[None], None] = {}
        self._turns = asyncio.Semaphore(HELD_TRIES)

    def put(self, message: Inbound) -> asyncio.Future[MessageAnswer]:
        """Queues a message. The future ends after its commit."""
        future: asyncio.Future[MessageAnswer] = asyncio.get_running_loop().create_future()
        if message.node in self._held:
            self._held[message.node].append((message, future))
            return future
        self._waiting.append((message, future))
        if len(self._waiting) >= BATCH_MAX or change_count(message.changes) >= GATHER_CHANGES:
            self._full.set()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="holdfast-group-commit")
        return future

    async def close(self) -> None:
        """Waits for what was put, except for held rows: those messages fail."""
        if self._task is not None:
            await self._task
        retries = list(self._retries)
        for retry in retries:
            retry.cancel()
        await asyncio.gather(*retries, return_exceptions=True)
        for waiting in self._held.values():
            _fail(waiting, GatewayUnavailable("this gateway stops: connect to another one"))

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
            await self._commit(batch)
        except RowHeld as error:
            await self._apart(batch, error)
        except StoreUnavailable as error:
            # No acknowledgement: the workers keep the messages and send them again.
            _fail(batch, error)
        except Exception as error:
            await self._apart(batch, error)

    async def _commit(self, batch: list[_Waiting]) -> None:
        answers = await self._apply([message for message, _ in batch])
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
        if len(groups) == 1 and isinstance(error, RowHeld):
            self._put_aside(batch)
            return
        if len(groups) == 1:
            _fail(batch, error)
            return
        for group in groups:
            await self._send(group)

    def _put_aside(self, batch: list[_Waiting]) -> None:
        """The messages of one worker, and what follows them, wait until a row is free."""
        node = batch[0][0].node
        self._held[node] = batch + [item for item in self._waiting if item[0].node == node]
        self._waiting = [item for item in self._waiting if item[0].node != node]
        retry = asyncio.create_task(self._outlast(node), name="holdfast-held-messages")
        self._retries[retry] = None
        retry.add_done_callback(self._retries.pop)

    async def _outlast(self, node: str) -> None:
        while waiting := self._held[node]:
            await self._clock.sleep(HELD_SECONDS)
            batch = waiting[:BATCH_MAX]
            try:
                async with self._turns:
                    await self._commit(batch)
            except RowHeld:
                continue
            except Exception as error:
                _fail(waiting, error)
                break
            del waiting[: len(batch)]
        del self._held[node]


def _fail(batch: list[_Waiting], error: Exception) -> None:
    for _, future in batch:
        if not future.done():
            future.set_exception(error)
