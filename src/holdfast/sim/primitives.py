"""State primitives under simulation: nodes that fight for locks, and callers that repeat themselves.

Promises: a holder's belief and what the store accepted from it are both on record, so that a checker can
tell the one from the other; an effect of the ledger is a task, so that it can be counted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from holdfast.core.ids import Ids
from holdfast.core.ledger import Turn
from holdfast.core.submit import Request, submit
from holdfast.errors import (
    HoldfastError,
    IdempotencyConflict,
    LeaseLost,
    StoreUnavailable,
    WaitTimeout,
)
from holdfast.primitives.idempotency import Ledger
from holdfast.primitives.locks import Locks
from holdfast.primitives.locks.backend import StoreBackend
from holdfast.primitives.locks.locks import Lease
from holdfast.queue.backend import Backend
from holdfast.queue.queue import Queue
from holdfast.sim.draw import Draw
from holdfast.sim.node import Node
from holdfast.sim.record import Belief, Record, Wait
from holdfast.store.port import Dialect
from holdfast.store.script import Script
from holdfast.store.scripts import insert, leases
from holdfast.store.sqlite.dialect import SqliteDialect

RESOURCES: Final = ("door", "well")
PAID: Final = "paid"
PAYMENTS: Final = 40
CALM_SECONDS: Final = 20.0


async def live(node: Node, queue: Queue, record: Record, draw: Draw) -> None:
    """Both, side by side, as long as the node lives."""
    backend: Backend | None = None
    while backend is None:
        try:
            backend = await queue.open()
        except StoreUnavailable:
            await node.clock.sleep(1.0)
    await asyncio.gather(
        Holder(node, backend, record, draw.stream("holder")).run(),
        Payer(node, backend, record, draw.stream("payer")).run(),
    )


class Holder:
    """Wants a lock, works under it, writes with its fence."""

    def __init__(self, node: Node, backend: Backend, record: Record, draw: Draw) -> None:
        self._node = node
        self._store = backend.store
        self._record = record
        self._draw = draw
        self._locks = Locks(
            StoreBackend(backend.store),
            backend.bus,
            clock=node.clock,
            ids=Ids(draw.stream("claims")),
            owner=node.life,
        )

    async def run(self) -> None:
        while True:
            await self._node.clock.sleep(self._draw.wait(20.0))
            try:
                await self._hold(self._draw.pick(RESOURCES))
            except HoldfastError as error:
                self._node.cluster.trace.sometimes(f"lock {error.code}")

    async def _hold(self, resource: str) -> None:
        ttl, wait = self._draw.between(3.0, 15.0), self._draw.between(0.0, 30.0)
        asked_at = self._record.time()
        try:
            stops = self._draw.chance(0.5)
            hold = self._locks.hold(resource, ttl=ttl, wait=wait, cancel_on_loss=stops)
            async with hold as lease:
                self._waited(resource, asked_at)
                await self._work(resource, lease)
        except WaitTimeout:
            self._waited(resource, asked_at)
            raise

    def _waited(self, resource: str, since: float) -> None:
        self._record.waits.append(Wait(resource, self._node.life, since, self._record.time()))

    async def _work(self, resource: str, lease: Lease) -> None:
        belief = Belief(resource, lease.fence, self._node.life, self._record.time())
        self._note_take_over(resource)
        self._record.beliefs.append(belief)
        # A stubborn one works on, and knows better: the store must refuse it.
        lease.when_lost(lambda: belief.end(self._record.time()))
        try:
            for _ in range(self._draw.whole(1, 4)):
                await self._node.clock.sleep(self._draw.wait(4.0))
                await self._write(resource, lease.claim_id, lease.fence)
        finally:
            belief.end(self._record.time())

    def _note_take_over(self, resource: str) -> None:
        """Whether the one before died with the lock."""
        before = next((b for b in reversed(self._record.beliefs) if b.resource == resource), None)
        if before is not None and before.until is None and before.life in self._record.died:
            self._node.cluster.trace.sometimes("lock-taken-over")

    async def _write(self, resource: str, claim_id: str, fence: int) -> None:
        def guarded(dialect: Dialect, ids: Ids, now: float) -> Script[bool]:
            accepted = yield from leases.guard(resource, claim_id, fence)
            if accepted:
                self._record.accepted.append((resource, fence))
            return accepted

        if not await self._store.run(guarded):
            self._node.cluster.trace.sometimes("fenced")
            raise LeaseLost("the store has a newer fence")


class Payer:
    """Pays each bill once, although several nodes pay the same bills and ask again when unanswered."""

    def __init__(self, node: Node, backend: Backend, record: Record, draw: Draw) -> None:
        self._node = node
        self._record = record
        self._draw = draw
        self._ids = Ids(draw.stream("payments"))
        self._store = backend.store
        self._ledger = Ledger(backend.store, clock=node.clock, owner=node.life, lease_seconds=5.0)

    async def run(self) -> None:
        while True:
            await self._node.clock.sleep(self._draw.wait(15.0))
            key = f"bill-{self._draw.below(PAYMENTS)}"
            try:
                match self._draw.below(10):
                    case 0 if key in self._record.paid:
                        await self._confuse(key)
                    case n if n < 5:
                        await self._pay_inside(key)
                    case _:
                        await self._pay_outside(key)
            except HoldfastError as error:
                self._node.cluster.trace.sometimes(f"ledger {error.code}")

    async def _pay_inside(self, key: str) -> None:
        answer = await self._ledger.run_script("sim", "pay", key, {"bill": key}, self._pay(key))
        self._record.paid.add(key)
        self._answered("pay", key, answer)

    async def _confuse(self, key: str) -> None:
        """Another request under the same key."""
        try:
            await self._ledger.run_script("sim", "pay", key, {"bill": 0}, self._pay(key))
        except IdempotencyConflict:
            self._node.cluster.trace.sometimes("ledger-refused-another-request")
        else:
            self._record.confused.append(f"{key} was paid and took another request too")

    def _answered(self, operation: str, key: str, answer: object) -> None:
        self._record.answers.setdefault(f"{operation} {key}", set()).add(repr(answer))

    def _pay(self, key: str) -> Callable[[Turn], Script[object]]:
        def effect(turn: Turn) -> Script[object]:
            now = self._store.now()
            request = Request(type=PAID, payload={"bill": key}, queue="payments")
            made = submit(request, task_id=self._ids.task(now), now=now)
            found = yield from insert.insert(
                [made], now=now, batch=self._ids.record(now), recorder=SqliteDialect()
            )
            return found[0].task_id

        return effect

    async def _pay_outside(self, key: str) -> None:
        """An effect that is not in our store: it may be tried again, under the same id."""

        async def effect(turn: Turn) -> object:
            await self._node.clock.sleep(self._draw.wait(3.0))
            self._record.outside.setdefault(key, set()).add(turn.id)
            if turn.taken_over_from is not None:
                self._node.cluster.trace.sometimes("ledger-taken-over")
            return f"{key} by {self._node.life} at {self._record.time()!r}"

        answer = await self._ledger.run("sim", "outside", key, {"bill": key}, effect)
        self._answered("outside", key, answer)


class Holders:
    """A part of the world (`sim.part.Part`): locks are granted again once everything works."""

    def __init__(self, names: list[str], record: Record) -> None:
        self._names = names
        self._record = record
        self._since: float | None = None

    def calm(self) -> None:
        self._since = self._record.time() + CALM_SECONDS

    def is_at_rest(self) -> bool:
        """Each has stood in line once more, since the leases of the dead have ended."""
        since = self._since
        stood = {
            wait.life.partition("#")[0]
            for wait in self._record.waits
            if since is not None and wait.since > since
        }
        return stood >= set(self._names)

    async def report(self) -> None:
        if not self.is_at_rest():
            self._record.ungranted.append("not every holder stood in line again after the faults")

    def end(self) -> None:
        return
