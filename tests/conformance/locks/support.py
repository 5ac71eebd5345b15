"""Locks over every backend in virtual time, with a connection that a test can cut."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from holdfast.bus.local import LocalBus
from holdfast.clock import VirtualClock
from holdfast.core.lease import LeaseRequest
from holdfast.errors import StoreUnavailable
from holdfast.metrics import Metrics
from holdfast.primitives.locks import FAMILIES, Locks
from holdfast.primitives.locks.backend import LockBackend, Make, MemoryBackend, StoreBackend
from holdfast.store.script import Script
from holdfast.store.scripts import leases as scripts
from tests.backends import Bench, SqliteBench

T = TypeVar("T")


class FaultyBackend(LockBackend):
    """A backend behind a connection that a test can cut or delay."""

    def __init__(self, backend: LockBackend) -> None:
        self.backend = backend
        self.is_cut = False
        """Every request fails."""
        self.loses_answers = 0
        """The number of answers that are still to be lost."""
        self.gate: asyncio.Event | None = None
        """Answers are held back until it is set."""
        self.answering = asyncio.Event()
        """Set when an answer is held back."""

    async def open(self) -> None:
        """The bench opens and closes."""

    async def close(self) -> None:
        """The bench opens and closes."""

    async def run(self, make: Make[T], *, repeatable: bool = True) -> T:
        return await self._pass(lambda: self.backend.run(make, repeatable=repeatable))

    async def run_in_tx(self, connection: object, make: Make[T]) -> T:
        return await self.backend.run_in_tx(connection, make)

    async def read(self, make: Callable[[], Script[T]]) -> T:
        return await self._pass(lambda: self.backend.read(make))

    def reading(self) -> float:
        return self.backend.reading()

    async def _pass(self, call: Callable[[], Awaitable[T]]) -> T:
        if self.is_cut:
            raise StoreUnavailable("the connection is cut")
        answer = await call()
        if self.gate is not None:
            self.answering.set()
            await self.gate.wait()
        if self.loses_answers:
            self.loses_answers -= 1
            raise StoreUnavailable("the answer was lost")
        return answer


class LocksBench:
    """Any number of `Locks` on the same data, like separate processes. They get no hints from each other,
    so they poll in virtual time."""

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

    async def open(self, owner: str = "owner") -> Locks:
        backend = FaultyBackend(await self.backend())
        locks = Locks(backend, LocalBus(), owner=owner, clock=self.clock, meter=self.metrics)
        await locks.open()
        self._opened.append(locks)
        return locks

    async def close(self) -> None:
        for locks in self._opened:
            backend_of(locks).is_cut = False
            await locks.close()
        if self.bench is not None:
            await self.bench.close()

    async def dead_waiter(self, resource: str, claim_id: str, *, waiter_seconds: float) -> None:
        """A waiter that never repeats its request."""
        request = LeaseRequest(resource, claim_id, "dead", 30.0, 0.0, waiter_seconds)
        await (await self.backend()).run(lambda hinter, now: scripts.ask(hinter, request, now))

    async def advance(self, seconds: float) -> None:
        """Moves the clock through every timer that is due, in order."""
        target = self.clock.now() + seconds
        await self.settle()
        while (wake := self.clock.next_wake()) is not None and wake <= target:
            self.clock.set(wake)
            await self.settle()
        self.clock.set(target)
        await self.settle()

    async def settle(self) -> None:
        """Lets the event loop run until no store request is pending."""
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


def backend_of(locks: Locks) -> FaultyBackend:
    backend = locks._backend
    assert isinstance(backend, FaultyBackend)
    return backend


async def is_free(locks: Locks, resource: str = "r") -> bool:
    return not (await locks.show(resource)).is_held
