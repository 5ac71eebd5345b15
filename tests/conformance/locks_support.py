"""Locks over every backend, in virtual time, and stores that lose answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from holdfast.bus.local import LocalBus
from holdfast.clock import VirtualClock
from holdfast.core.lease import LeaseRequest
from holdfast.errors import StoreUnavailable
from holdfast.primitives.locks import FAMILIES, Locks
from holdfast.primitives.locks.backend import LockBackend, Make, MemoryBackend, StoreBackend
from holdfast.primitives.metrics import Metrics
from holdfast.store.script import Rows
from holdfast.store.scripts import leases as scripts
from tests.conformance.conftest import Bench, SqliteBench

T = TypeVar("T")


class Line(LockBackend):
    """The way to a backend, which a test can cut."""

    def __init__(self, backend: LockBackend) -> None:
        self.backend = backend
        self.is_cut = False
        """Nothing gets through."""
        self.loses_answers = 0
        """So many answers are lost on their way back."""
        self.gate: asyncio.Event | None = None
        """Answers wait for it."""
        self.answering = asyncio.Event()
        """An answer waits."""

    async def open(self) -> None:
        """The bench opens and closes."""

    async def close(self) -> None:
        """The bench opens and closes."""

    async def run(self, make: Make[T], *, repeatable: bool = True) -> T:
        return await self._pass(lambda: self.backend.run(make, repeatable=repeatable))

    async def run_in_tx(self, connection: object, make: Make[T]) -> T:
        return await self.backend.run_in_tx(connection, make)

    async def query(self, statement: str, **params: Any) -> Rows:
        return await self._pass(lambda: self.backend.query(statement, **params))

    def reading(self) -> float:
        return self.backend.reading()

    async def _pass(self, call: Callable[[], Awaitable[T]]) -> T:
        if self.is_cut:
            raise StoreUnavailable("the line is cut")
        answer = await call()
        if self.gate is not None:
            self.answering.set()
            await self.gate.wait()
        if self.loses_answers:
            self.loses_answers -= 1
            raise StoreUnavailable("the answer was lost")
        return answer


class LocksBench:
    """Any number of `Locks` on the same data, as if each were a process of its own. They have no hints of
    each other: what is left is polling, in virtual time."""

    def __init__(self, clock: VirtualClock, bench: Bench | None) -> None:
        self.clock = clock
        self.bench = bench
        self.metrics = Metrics(FAMILIES)
        self._shared: LockBackend | None = None
        self._opened: list[Locks] = []

    async def backend(self) -> LockBackend:
        is_memory = isinstance(self.bench, SqliteBench) and not self.bench._path
        if self._shared is not None and (self.bench is None or is_memory):
            return self._shared
        self._shared = (
            MemoryBackend(self.clock)
            if self.bench is None
            else StoreBackend(await self.bench.open())
        )
        return self._shared

    async def open(self, owner: str = "someone") -> Locks:
        line = Line(await self.backend())
        locks = Locks(line, LocalBus(), owner=owner, clock=self.clock, meter=self.metrics)
        await locks.open()
        self._opened.append(locks)
        return locks

    async def close(self) -> None:
        for locks in self._opened:
            line_of(locks).is_cut = False
            await locks.close()
        if self.bench is not None:
            await self.bench.close()

    async def dead_waiter(self, resource: str, claim_id: str, *, waiter_seconds: float) -> None:
        """Stands in line and is never heard of again."""
        wanted = LeaseRequest(resource, claim_id, "dead", 30.0, 0.0, waiter_seconds)
        await (await self.backend()).run(lambda hinter, now: scripts.ask(hinter, wanted, now))

    async def advance(self, seconds: float) -> None:
        """Through every moment at which somebody wakes up, in order."""
        target = self.clock.now() + seconds
        await self.settle()
        while (wake := self.clock.next_wake()) is not None and wake <= target:
            self.clock.set(wake)
            await self.settle()
        self.clock.set(target)
        await self.settle()

    async def settle(self) -> None:
        """Until nobody has waited for a store for a while."""
        quiet = 0
        while quiet < 20:
            await asyncio.sleep(0)
            quiet += 1
            if busy := self._busy():
                quiet = 0
                await asyncio.wait(busy)

    def _busy(self) -> list[asyncio.Task[Any]]:
        return [
            task
            for locks in self._opened
            for task in locks._tasks.running
            if task not in {lease._renewal_loop for lease in locks._held}
        ]


def line_of(locks: Locks) -> Line:
    line = locks._backend
    assert isinstance(line, Line)
    return line


async def is_free(locks: Locks, resource: str = "r") -> bool:
    return not (await locks.show(resource)).is_held
