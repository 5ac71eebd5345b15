"""Locks and the idempotency ledger in the simulator: nodes that compete for locks and repeat payments.

Promises: both the time in which a holder assumes it holds a lock and the writes the store accepted are
recorded, so a checker can compare them; an effect of the ledger is a task, so it can be counted. Callers
are cancelled at any point of a call, and locks are closed while others wait for them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar, cast

from holdfast.bus.port import Bus
from holdfast.core.ids import Ids
from holdfast.core.ledger import EntryLease, State
from holdfast.core.request import EnqueueRequest
from holdfast.core.submit import submit
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
from holdfast.primitives.locks.base import CLOSE_SECONDS
from holdfast.primitives.locks.locks import Lease
from holdfast.queue.queue import Queue
from holdfast.queue.session import Resources
from holdfast.sim.draw import Draw
from holdfast.sim.node import Node
from holdfast.sim.record import HolderInterval, Record, Wait
from holdfast.store.port import Dialect
from holdfast.store.script import Script
from holdfast.store.scripts import insert, leases
from holdfast.store.sqlite.dialect import SqliteDialect
from holdfast.store.store import Store

T = TypeVar("T")
CLOSING_SECONDS: Final = CLOSE_SECONDS + 1.0
RESOURCES: Final = ("door", "well")
PAID: Final = "paid"
PAYMENTS: Final = 40
CALM_SECONDS: Final = 20.0


async def run_primitives(node: Node, queue: Queue, record: Record, draw: Draw) -> None:
    """Runs a holder and a payer while the node is up."""
    resources: Resources | None = None
    while resources is None:
        try:
            resources = await queue.open()
        except StoreUnavailable:
            await node.clock.sleep(1.0)
    await asyncio.gather(
        Holder(node, resources, record, draw.stream("holder")).run(),
        Payer(node, resources, record, draw.stream("payer")).run(),
    )


class Holder:
    """Takes a lock, works under it and writes with its fence."""

    def __init__(self, node: Node, resources: Resources, record: Record, draw: Draw) -> None:
        self._node = node
        self._store = resources.store
        self._record = record
        self._draw = draw
        self._bus = resources.bus
        self._ids = Ids(draw.stream("claims"))
        self._locks = self._make_locks()

    def _make_locks(self) -> Locks:
        return Locks(
            _BorrowedStore(self._store),
            cast("Bus", _BorrowedBus(self._bus)),
            clock=self._node.clock,
            ids=self._ids,
            owner=self._node.life,
        )

    async def run(self) -> None:
        while True:
            await self._node.clock.sleep(self._draw.wait(20.0))
            resource = self._draw.pick(RESOURCES)
            try:
                match self._draw.below(10):
                    case 0:
                        await self._close_under_waiters(resource)
                    case 1 | 2:
                        await with_random_cancel(self._node, self._draw, self._hold(resource))
                    case _:
                        await self._hold(resource)
            except CallCancelled:
                self._node.cluster.trace.sometimes("lock-cancelled")
            except HoldfastError as error:
                self._node.cluster.trace.sometimes(f"lock {error.code}")

    async def _close_under_waiters(self, resource: str) -> None:
        """Closes locks while others wait: closed locks grant nothing, and closing waits for the store
        only."""
        locks, self._locks = self._locks, self._make_locks()
        first = await locks.acquire(resource, ttl=10.0, wait=self._draw.between(0.0, 20.0))
        interval = HolderInterval(resource, first.fence, self._node.life, self._record.time())
        self._record.holders.append(interval)
        first.when_lost(lambda: interval.end(self._record.time()))
        waiting = [
            asyncio.ensure_future(locks.acquire(resource, ttl=10.0, wait=60.0)) for _ in range(2)
        ]
        await self._node.clock.sleep(self._draw.between(0.0, 3.0))
        closing_at = self._record.time()
        await locks.close()
        interval.end(self._record.time())
        ended = await asyncio.gather(*waiting, return_exceptions=True)
        self._closed(resource, closing_at, self._record.time(), ended)

    def _closed(
        self, resource: str, since: float, until: float, ended: list[Lease | BaseException]
    ) -> None:
        self._node.cluster.trace.sometimes("locks-closed-under-waiters")
        late = [lease for lease in ended if isinstance(lease, Lease) and not lease.lost.is_set()]
        if late:
            self._record.close_errors.append(f"{resource}: granted by locks that were closed")
        frozen = self._record.frozen.get(self._node.life, [])
        frozen_seconds = sum(max(0.0, min(until, b) - max(since, a)) for a, b in frozen)
        if until - since - frozen_seconds > CLOSING_SECONDS:
            self._record.close_errors.append(
                f"{resource}: closing took {until - since:.3f} s ({self._node.life})"
            )

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
        interval = HolderInterval(resource, lease.fence, self._node.life, self._record.time())
        self._note_take_over(resource)
        self._record.holders.append(interval)
        # Some holders continue after the loss of the lease: the store must refuse their writes.
        lease.when_lost(lambda: interval.end(self._record.time()))
        try:
            for _ in range(self._draw.whole(1, 4)):
                await self._node.clock.sleep(self._draw.wait(4.0))
                await self._write(resource, lease.claim_id, lease.fence)
        finally:
            interval.end(self._record.time())

    def _note_take_over(self, resource: str) -> None:
        """Counts a takeover when the previous holder died with the lock."""
        before = next((b for b in reversed(self._record.holders) if b.resource == resource), None)
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


class _BorrowedStore(StoreBackend):
    """The store of the node, which closing the locks does not close."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.open = self.close = _nothing


class _BorrowedBus:
    """The bus of the node, which closing the locks does not stop."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self.start = self.stop = _nothing

    def __getattr__(self, name: str) -> Any:
        return getattr(self._bus, name)


async def _nothing() -> None:
    return


class CallCancelled(Exception):
    """The caller gave up: its call was cancelled and has ended."""


async def with_random_cancel(node: Node, draw: Draw, call: Coroutine[Any, Any, T]) -> T:
    """Cancels the call after a random time and waits for its end."""
    task = asyncio.ensure_future(call)
    seconds = draw.pick((0.0, draw.between(0.0, 0.005), draw.wait(2.0)))
    timer = asyncio.ensure_future(node.clock.sleep(seconds))
    await asyncio.wait([task, timer], return_when=asyncio.FIRST_COMPLETED)
    timer.cancel()
    if task.done():
        return task.result()
    task.cancel()
    await asyncio.wait([task])
    if task.cancelled():
        raise CallCancelled
    return task.result()


class Payer:
    """Pays each bill once, although several nodes pay the same bills and repeat unanswered calls."""

    def __init__(self, node: Node, resources: Resources, record: Record, draw: Draw) -> None:
        self._node = node
        self._record = record
        self._draw = draw
        self._ids = Ids(draw.stream("payments"))
        self._store = resources.store
        self._ledger = Ledger(resources.store, clock=node.clock, owner=node.life, lease_seconds=5.0)
        self._unsure: set[str] = set()
        """Keys that a call may have left in progress because the store did not answer."""

    async def run(self) -> None:
        while True:
            await self._node.clock.sleep(self._draw.wait(15.0))
            key = f"bill-{self._draw.below(PAYMENTS)}"
            try:
                match self._draw.below(10):
                    case 0 if key in self._record.paid:
                        await self._send_conflict(key)
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

    async def _send_conflict(self, key: str) -> None:
        """Sends a different request under a used key."""
        try:
            await self._ledger.run_script("sim", "pay", key, {"bill": 0}, self._pay(key))
        except IdempotencyConflict:
            self._node.cluster.trace.sometimes("ledger-refused-another-request")
        else:
            self._record.key_conflicts_accepted.append(
                f"{key} was paid and took another request too"
            )

    def _answered(self, operation: str, key: str, answer: object) -> None:
        self._record.answers.setdefault(f"{operation} {key}", set()).add(repr(answer))

    def _pay(self, key: str) -> Callable[[EntryLease], Script[object]]:
        def effect(lease: EntryLease) -> Script[object]:
            now = self._store.now()
            request = EnqueueRequest(type=PAID, payload={"bill": key}, queue="payments")
            task = submit(request, task_id=self._ids.task(now), now=now)
            inserted = yield from insert.insert(
                [task], now=now, record_id=self._ids.record(now), recorder=SqliteDialect()
            )
            return inserted[0].task_id

        return effect

    async def _pay_outside(self, key: str) -> None:
        """Performs an effect outside the store. It may be repeated, under the same id."""

        async def effect(lease: EntryLease) -> object:
            if self._draw.chance(0.7):  # Otherwise its end is written at once.
                await self._node.clock.sleep(self._draw.wait(3.0))
            self._record.outside.setdefault(key, set()).add(lease.id)
            if lease.taken_over_from is not None:
                self._node.cluster.trace.sometimes("ledger-taken-over")
            return f"{key} by {self._node.life} at {self._record.time()!r}"

        async def call() -> object:
            try:
                return await self._ledger.run("sim", "outside", key, {"bill": key}, effect)
            except (asyncio.CancelledError, StoreUnavailable) as error:
                if not isinstance(error, asyncio.CancelledError) or hasattr(error, "__notes__"):
                    self._unsure.add(key)
                raise

        if self._draw.chance(0.5):
            self._answered("outside", key, await call())
            return
        try:
            answer = await with_random_cancel(self._node, self._draw, call())
        except CallCancelled:
            await self._check_cancelled(key)
        else:
            self._answered("outside", key, answer)

    async def _check_cancelled(self, key: str) -> None:
        """Checks that a cancelled call left its key free or answered."""
        self._node.cluster.trace.sometimes("ledger-cancelled")
        await self._node.clock.sleep(
            1.0
        )  # Messages sent before the cancellation may arrive after it.
        entry = await self._ledger.get("sim", "outside", key)
        if entry is None or entry.state is not State.IN_PROGRESS or key in self._unsure:
            return
        if entry.owner.rpartition("#")[0] == self._node.life:
            self._record.left_open.append(f"{key} by {entry.owner} at {self._record.time():.3f}")


class Holders:
    """The holders as a `sim.subsystem.Subsystem`: locks must be granted again after the fault phase."""

    def __init__(self, names: list[str], record: Record) -> None:
        self._names = names
        self._record = record
        self._since: float | None = None

    def calm(self) -> None:
        self._since = self._record.time() + CALM_SECONDS

    def is_at_rest(self) -> bool:
        """Whether each holder has waited for a lock again since the leases of dead holders expired."""
        since = self._since
        waited = {
            wait.life.partition("#")[0]
            for wait in self._record.waits
            if since is not None and wait.since > since
        }
        return waited >= set(self._names)

    async def report(self) -> None:
        if not self.is_at_rest():
            self._record.ungranted.append(
                "not every holder waited for a lock again after the faults"
            )

    def end(self) -> None:
        return
