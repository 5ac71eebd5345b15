"""An effect that counts its runs, ledgers on the same data, and a clock to advance."""

from __future__ import annotations

import asyncio
from typing import Any

from holdfast.clock import VirtualClock
from holdfast.metrics import Metrics
from holdfast.primitives.idempotency import (
    FAMILIES,
    EntryLease,
    Ledger,
)
from tests.acceptance.apps.harness import eventually

KEY = ("account:7", "charge", "key-1")

REQUEST = {"amount": 5, "to": ["ann", None]}

LEASE = 9.0

RETENTION = 100.0


class Effect:
    """Counts its runs; may answer, fail, or wait for an event."""

    def __init__(self, answer: Any = "paid", error: BaseException | None = None) -> None:
        self.leases: list[EntryLease] = []
        self.answer = answer
        self.error = error
        self.gate: asyncio.Event | None = None

    async def __call__(self, lease: EntryLease) -> Any:
        self.leases.append(lease)
        if self.gate is not None:
            await self.gate.wait()
        if self.error is not None:
            raise self.error
        return self.answer

    @property
    def runs(self) -> int:
        return len(self.leases)


class Many:
    """Any number of ledgers on the same data, like separate processes."""

    def __init__(self, url: str, clock: VirtualClock) -> None:
        self.url = url
        self.clock = clock
        self.meter = Metrics(FAMILIES)
        self._ledgers: list[Ledger] = []

    def open(self, owner: str | None = None) -> Ledger:
        if self._ledgers and self.url in ("memory://", "sqlite://"):
            # In memory: the same store under another owner.
            store = self._ledgers[0].calls.loops.store
            return Ledger(
                store,
                clock=self.clock,
                owner=owner,
                lease_seconds=LEASE,
                retention_seconds=RETENTION,
                meter=self.meter,
            )
        ledger = Ledger.connect(
            self.url,
            clock=self.clock,
            owner=owner,
            lease_seconds=LEASE,
            retention_seconds=RETENTION,
            meter=self.meter,
        )
        self._ledgers.append(ledger)
        return ledger

    async def close(self) -> None:
        for ledger in self._ledgers:
            await ledger.close()

    def counted(self, name: str) -> float:
        return self.meter.value(f"holdfast_ledger_{name}", operation=KEY[1])


def pass_time(clock: VirtualClock, seconds: float) -> None:
    clock.set(clock.now() + seconds)


async def started(ledger: Ledger) -> EntryLease:
    lease = await ledger.begin(*KEY, REQUEST)
    assert isinstance(lease, EntryLease)
    return lease


async def advance(clock: VirtualClock, task: asyncio.Task[Any]) -> None:
    """Fires timers in order until the task is done."""
    while not task.done():
        await eventually(lambda: task.done() or clock.next_wake() is not None)
        due = clock.next_wake()
        if due is not None and not task.done():
            clock.set(due)
