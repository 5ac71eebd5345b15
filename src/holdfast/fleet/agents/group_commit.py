"""Group commit across agents: syncs that wait at the same time share a transaction.

Promises: an answer follows the commit of its sync. Syncs of one agent are applied in the order in which they
were put, one in a transaction. A sync that the store cannot apply fails alone: its batch is halved until it
stands by itself. Never: more than `BATCH_MAX` syncs or `BATCH_BYTES` of output in a transaction, unless one
sync has more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeAlias

from holdfast.clock import Clock
from holdfast.errors import StoreUnavailable
from holdfast.fleet.agents.parts import AgentMessage, SyncAnswer
from holdfast.store.port import RowHeld

BATCH_MAX: Final = 500
BATCH_BYTES: Final = 16 * 1_048_576
GATHER_SECONDS: Final = 0.002
"""How long a sync waits for others to share its commit while no commit is under way."""

Apply: TypeAlias = Callable[[Sequence[AgentMessage]], Awaitable[list[SyncAnswer]]]
_Waiting: TypeAlias = tuple[AgentMessage, "asyncio.Future[SyncAnswer]"]


class AgentCommit:
    """Collects syncs and applies them, one transaction at a time."""

    def __init__(
        self, apply: Apply, clock: Clock, *, gather_seconds: float = GATHER_SECONDS
    ) -> None:
        self._apply = apply
        self._clock = clock
        self._gather_seconds = gather_seconds
        self._waiting: list[_Waiting] = []
        self._full = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def put(self, message: AgentMessage) -> asyncio.Future[SyncAnswer]:
        """Queues a sync. The future ends after its commit."""
        future: asyncio.Future[SyncAnswer] = asyncio.get_running_loop().create_future()
        self._waiting.append((message, future))
        if len(self._waiting) >= BATCH_MAX:
            self._full.set()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="holdfast-agent-commit")
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
            batch = self._next()
            if len(self._waiting) < BATCH_MAX:
                self._full.clear()
            await self._send(batch)

    def _next(self) -> list[_Waiting]:
        """The next batch: the first sync of each agent. Those behind a full batch are not looked at."""
        batch: list[_Waiting] = []
        rest: list[_Waiting] = []
        hosts: set[str] = set()
        size = 0
        for at, waiting in enumerate(self._waiting):
            message, future = waiting
            if future.done():
                continue  # its caller has gone
            if len(batch) >= BATCH_MAX:
                rest += self._waiting[at:]
                break
            size_after = size + _size(message)
            if message.host_id in hosts or (batch and size_after > BATCH_BYTES):
                rest.append(waiting)
            else:
                batch.append(waiting)
                size = size_after
            hosts.add(message.host_id)
        self._waiting = rest
        return batch

    async def _send(self, batch: list[_Waiting]) -> None:
        if not batch:
            return
        try:
            answers = await self._apply([message for message, _ in batch])
        except RowHeld as error:  # a row of one agent: the others are served without it
            await self._halve(batch, error)
        except StoreUnavailable as error:
            # No answer: the agents keep what they have and send it again.
            _fail(batch, error)
        except Exception as error:
            await self._halve(batch, error)
        else:
            for (_, future), answer in zip(batch, answers, strict=True):
                if not future.done():
                    future.set_result(answer)

    async def _halve(self, batch: list[_Waiting], error: Exception) -> None:
        """Finds the sync that cannot be applied, which fails alone."""
        if len(batch) == 1:
            _fail(batch, error)
            return
        middle = len(batch) // 2
        await self._send(batch[:middle])
        await self._send(batch[middle:])


def _size(message: AgentMessage) -> int:
    chunks = message.sync.chunks
    return sum(len(chunk.data_base64) for chunk in chunks) if chunks else 0


def _fail(batch: list[_Waiting], error: Exception) -> None:
    for _, future in batch:
        if not future.done():
            future.set_exception(error)
