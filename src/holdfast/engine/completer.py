"""Commits what handlers have returned, in batches, while the next tasks already run.

Promises: an outcome stays held, its lease renewed, until the store has answered; when the store is away
it is tried again until it is back. A stale outcome changes nothing and is counted.
Never: more than `WAITING_MAX` outcomes in memory; then workers wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from holdfast.clock import Clock
from holdfast.core.command import Order
from holdfast.core.decide import Decision, Refusal
from holdfast.core.task import Task
from holdfast.engine.loop import Loop
from holdfast.store.store import Store

BATCH_MAX: Final = 100
WAITING_MAX: Final = 1_000
IDLE_SECONDS: Final = 60.0


class Completer(Loop):
    """One batch on its way at a time; the next one gathers meanwhile."""

    name = "completer"

    def __init__(
        self, clock: Clock, store: Store, on_done: Callable[[Sequence[tuple[Task, Decision]]], None]
    ) -> None:
        super().__init__(clock)
        self._store = store
        self._on_done = on_done
        self._waiting: list[tuple[Task, Order]] = []
        self._room = asyncio.Event()
        self._room.set()
        self._empty = asyncio.Event()
        self._empty.set()
        self.fenced = 0

    def deliver(self, task: Task, order: Order) -> bool:
        """Takes an outcome; False asks the worker to wait for `room` before it takes another task."""
        self._waiting.append((task, order))
        if len(self._waiting) == 1:
            self._empty.clear()
            self.wake()
        return len(self._waiting) < WAITING_MAX

    async def room(self) -> None:
        """Until there are fewer outcomes waiting."""
        while len(self._waiting) >= WAITING_MAX:
            self._room.clear()
            await self._room.wait()

    async def tick(self) -> float:
        while self._waiting:
            batch = self._waiting[:BATCH_MAX]
            decisions = await self._store.finish(batch)
            del self._waiting[: len(batch)]
            self._room.set()
            refused = [each for each in decisions if type(each) is Refusal]
            self.fenced += sum(map(is_stale, refused))
            self._on_done(
                [(task, decision) for (task, _), decision in zip(batch, decisions, strict=True)]
            )
        self._empty.set()
        return IDLE_SECONDS

    async def flush(self, seconds: float) -> bool:
        """Until everything handed in is committed, at most this long."""
        return await self.clock.wait(self._empty, seconds)


def is_stale(decision: Decision) -> bool:
    """An outcome under an old fence."""
    return isinstance(decision, Refusal) and decision.code == "lease-lost"
