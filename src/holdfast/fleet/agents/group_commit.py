"""Group commit across agents: syncs that wait at the same time share a transaction.

Promises: an answer follows the commit of its sync. Syncs of one agent are applied in the order in which they
were put, one in a transaction. A sync that the store cannot apply fails alone: its batch is halved until it
stands by itself. A sync that needs a row which another transaction holds waits for it apart, at most
`ROW_WAIT_SECONDS`, and no other agent does. Never: more than `BATCH_MAX` syncs or `BATCH_BYTES` of output in
a transaction, unless one sync has more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final, NamedTuple, TypeAlias

from holdfast.clock import Clock
from holdfast.errors import StoreUnavailable
from holdfast.fleet.agents.parts import AgentMessage, SyncAnswer
from holdfast.store.port import ROW_WAIT_SECONDS, RowHeld

BATCH_MAX: Final = 500
BATCH_BYTES: Final = 16 * 1_048_576
GATHER_SECONDS: Final = 0.002
"""How long a sync waits for others to share its commit while no commit is under way."""
HELD_SECONDS: Final = 0.02
"""Pause before the first further try of syncs that need held rows; it doubles up to `HELD_SECONDS_MAX`."""
HELD_SECONDS_MAX: Final = 0.25

Apply: TypeAlias = Callable[[Sequence[AgentMessage]], Awaitable[list[SyncAnswer]]]
"""Applies syncs in one transaction. The answer to a sync whose rows another transaction holds is RowHeld."""
_Waiting: TypeAlias = tuple[AgentMessage, "asyncio.Future[SyncAnswer]"]


class _Held(NamedTuple):
    """A sync that needs a held row."""

    waiting: _Waiting
    until: float
    error: RowHeld


class AgentCommit:
    """Collects syncs and applies them: one transaction at a time, and one for syncs whose rows were held."""

    def __init__(
        self, apply: Apply, clock: Clock, *, gather_seconds: float = GATHER_SECONDS
    ) -> None:
        self._apply = apply
        self._clock = clock
        self._gather_seconds = gather_seconds
        self._waiting: list[_Waiting] = []
        self._full = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._held: dict[str, _Held] = {}
        """By host. Later syncs of these hosts wait behind."""
        self._retry: asyncio.Task[None] | None = None

    def put(self, message: AgentMessage) -> asyncio.Future[SyncAnswer]:
        """Queues a sync. The future ends after its commit."""
        future: asyncio.Future[SyncAnswer] = asyncio.get_running_loop().create_future()
        self._waiting.append((message, future))
        if len(self._waiting) >= BATCH_MAX:
            self._full.set()
        self._go_on()
        return future

    def _go_on(self) -> None:
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="holdfast-agent-commit")

    async def close(self) -> None:
        """Waits for what was put, except for held rows: those syncs fail."""
        if self._task is not None:
            await self._task
        if self._retry is not None:
            self._retry.cancel()
            with suppress(asyncio.CancelledError):
                await self._retry
        for host_id, held in self._held.items():
            behind = [one for one in self._waiting if one[0].host_id == host_id]
            _fail([held.waiting, *behind], held.error)

    async def _run(self) -> None:
        """Applies batches until nothing waits. What arrives during a commit forms the next batch, so only the
        first batch waits for others."""
        if self._gather_seconds:
            await self._clock.wait(self._full, self._gather_seconds)
        while batch := self._next():
            if len(self._waiting) < BATCH_MAX:
                self._full.clear()
            await self._send(batch)

    def _next(self) -> list[_Waiting]:
        """The next batch: the first sync of each agent. Those behind a full batch are not looked at."""
        batch: list[_Waiting] = []
        rest: list[_Waiting] = []
        hosts = set(self._held)
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
        try:
            answers = await self._apply([message for message, _ in batch])
        except RowHeld as error:  # a row of one agent: the others are served without it
            await self._halve(batch, error)
        except StoreUnavailable as error:
            # No answer: the agents keep what they have and send it again.
            self._fail(batch, error)
        except Exception as error:
            await self._halve(batch, error)
        else:
            for waiting, answer in zip(batch, answers, strict=True):
                if isinstance(answer, RowHeld):
                    self._put_aside(waiting, answer)
                else:
                    self._answer(waiting, answer)

    async def _halve(self, batch: list[_Waiting], error: Exception) -> None:
        """Finds the sync that cannot be applied, which fails or waits alone."""
        if len(batch) > 1:
            middle = len(batch) // 2
            await self._send(batch[:middle])
            await self._send(batch[middle:])
        elif isinstance(error, RowHeld):
            self._put_aside(batch[0], error)
        else:
            self._fail(batch, error)

    def _answer(self, waiting: _Waiting, answer: SyncAnswer) -> None:
        message, future = waiting
        self._held.pop(message.host_id, None)
        if not future.done():
            future.set_result(answer)

    def _fail(self, batch: list[_Waiting], error: Exception) -> None:
        for message, _ in batch:
            self._held.pop(message.host_id, None)
        _fail(batch, error)

    # -- held rows -------------------------------------------------------------------------------------

    def _put_aside(self, waiting: _Waiting, error: RowHeld) -> None:
        """The sync waits until its rows are free, or for long enough."""
        host_id, now = waiting[0].host_id, self._clock.monotonic()
        before = self._held.get(host_id)
        until = now + ROW_WAIT_SECONDS if before is None else before.until
        if now >= until or waiting[1].done():
            self._fail([waiting], error)
            return
        self._held[host_id] = _Held(waiting, until, error)
        if self._retry is None or self._retry.done():
            self._retry = asyncio.create_task(self._outlast(), name="holdfast-held-syncs")

    async def _outlast(self) -> None:
        """Applies syncs that were put aside, until none is left."""
        pause_seconds = HELD_SECONDS
        while self._held:
            await self._clock.sleep(pause_seconds)
            pause_seconds = min(2 * pause_seconds, HELD_SECONDS_MAX)
            held = list(self._held)
            for start in range(0, len(held), BATCH_MAX):
                part = held[start : start + BATCH_MAX]
                await self._send([self._held[host].waiting for host in part])
            if any(host not in self._held for host in held):
                pause_seconds = HELD_SECONDS
                self._go_on()  # what waited behind them


def _size(message: AgentMessage) -> int:
    chunks = message.sync.chunks
    return sum(len(chunk.data_base64) for chunk in chunks) if chunks else 0


def _fail(batch: list[_Waiting], error: Exception) -> None:
    for _, future in batch:
        if not future.done():
            future.set_exception(error)
