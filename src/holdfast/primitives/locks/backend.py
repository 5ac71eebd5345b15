"""Where leases are stored: runs the scripts of `store.scripts.leases`.

Promises: each script is one transaction. The memory backend runs the same scripts over dicts, so a test needs
no database to test the same rules.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeVar

from msgspec.structs import astuple, replace

from holdfast.bus.port import Bus
from holdfast.clock import Clock
from holdfast.core.lease import Audit, LeaseRow, Waiter, opens_at
from holdfast.errors import InvalidInput
from holdfast.store.script import Rows, Script, StatementCall
from holdfast.store.scripts.leases import Hinter, Teller
from holdfast.store.store import Store

T = TypeVar("T")
Make = Callable[[Hinter, float], Script[T]]


class LockBackend(Protocol):
    """Makes a script from a `Hinter` and the store's time, and runs it."""

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def run(self, make: Make[T], *, repeatable: bool = True) -> T:
        """`repeatable`: a second run of a committed script returns the same answer, because it recognizes
        its claim and fence."""
        ...

    async def run_in_tx(self, connection: object, make: Make[T]) -> T:
        """Runs the script in the caller's open transaction."""
        ...

    async def read(self, make: Callable[[], Script[T]]) -> T:
        """Runs a script that only reads."""
        ...

    def reading(self) -> float:
        """The store's time. It may go backwards; each lease row keeps its own high-water mark."""
        ...


class StoreBackend:
    """SQLite or PostgreSQL."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.open = store.open
        self.close = store.close
        self.read = store.read
        self.reading = store.now

    async def run(self, make: Make[T], *, repeatable: bool = True) -> T:
        return await self._store.run(
            lambda dialect, ids, now: make(Teller(dialect, ids), now),
            small=True,
            repeatable=repeatable,
        )

    async def run_in_tx(self, connection: object, make: Make[T]) -> T:
        return await self._store.run_in_tx(
            connection, lambda dialect, ids, now: make(Teller(dialect, ids), now)
        )


class MemoryBackend:
    """For one process, with any number of threads and event loops. Uses the monotonic clock, so setting the
    wall clock has no effect."""

    def __init__(self, clock: Clock, bus: Bus | None = None) -> None:
        """`bus`: carries hints to the other users of this backend."""
        self._clock = clock
        self._bus = bus
        self._hints: list[str] = []
        self._mutex = threading.Lock()
        self._offset = clock.now() - clock.monotonic()
        self._leases: dict[str, LeaseRow] = {}
        self._queues: dict[str, dict[str, Waiter]] = {}
        self._audits: list[Audit] = []

    async def open(self) -> None:
        """Nothing to connect."""

    async def close(self) -> None:
        """Nothing to close."""

    def reading(self) -> float:
        return self._clock.monotonic() + self._offset

    def hint(self, text: str) -> Script[None]:
        """Published after the script, for other users in this process."""
        self._hints.append(text)
        yield from ()

    def tell(self, kind: str, now: float, data: dict[str, object]) -> Script[None]:
        """Memory has no feed."""
        yield from ()

    async def run(self, make: Make[T], *, repeatable: bool = True) -> T:
        with self._mutex:
            try:
                value = self._run(make(self, self.reading()))
            finally:
                hints, self._hints = self._hints, []
        if self._bus is not None:
            for hint in hints:
                self._bus.publish(hint)
        return value

    def _run(self, script: Script[T]) -> T:
        try:
            statement = next(script)
            while True:
                statement = script.send(self._execute(statement))
        except StopIteration as end:
            value: T = end.value
            return value

    async def run_in_tx(self, connection: object, make: Make[T]) -> T:
        raise InvalidInput("locks in memory have no transactions: use `await lease.verify()`")

    async def read(self, make: Callable[[], Script[T]]) -> T:
        with self._mutex:
            return self._run(make())

    def _execute(self, statement: StatementCall) -> Rows:
        rows: Iterable[Any] = getattr(self, f"_{statement.name}")(**statement.params)
        return list(rows)

    # -- one method for each named statement -----------------------------------------------------------------

    def _lock_lease(self, resource: str, now: float) -> Rows:
        lease = self._leases.get(resource) or LeaseRow(resource)
        lease = self._leases[resource] = replace(lease, clock_at=max(lease.clock_at, now))
        return [astuple(lease)]

    def _save_lease(self, resource: str, **fields: Any) -> Rows:
        self._leases[resource] = replace(self._leases[resource], **fields)
        return [1]

    def _guard_lease(self, resource: str) -> Rows:
        lease = self._leases.get(resource)
        return [] if lease is None else [(lease.fence, lease.claim_id)]

    def _waiters(self, resource: str) -> list[Waiter]:
        """The waiters, in order of arrival."""
        return list(self._queues.get(resource, {}).values())

    def _lease_queue(self, resource: str, claim_id: str, now: float) -> Rows:
        waiters = self._waiters(resource)
        head = [waiter for waiter in waiters if waiter.alive_until > now][:1]
        own = [waiter for waiter in waiters if waiter.claim_id == claim_id and waiter not in head]
        return [astuple(waiter) for waiter in head + own]

    def _count_waiters(self, resource: str) -> Rows:
        return [(len(self._waiters(resource)),)]

    def _put_waiter(
        self,
        resource: str,
        *,
        ticket: int,
        claim_id: str,
        owner: str,
        now: float,
        alive_until: float,
    ) -> Rows:
        queue = self._queues.setdefault(resource, {})
        waiter = queue.get(claim_id) or Waiter(ticket, claim_id, owner, now, alive_until)
        queue[claim_id] = replace(waiter, alive_until=alive_until)
        return [1]

    def _drop_waiters(self, resource: str, claim_id: str, now: float) -> Rows:
        remaining = [
            waiter
            for waiter in self._waiters(resource)
            if waiter.claim_id != claim_id and waiter.alive_until > now
        ]
        self._queues[resource] = {waiter.claim_id: waiter for waiter in remaining}
        if not remaining:
            del self._queues[resource]
        return [1]

    def _ready_waiters(self, claims: list[str], limit: int, now: float) -> Rows:
        heads = (
            (r, next((w for w in self._waiters(r) if w.alive_until > now), None))
            for r in self._queues
        )
        return [
            (head.claim_id,)
            for resource, head in heads
            if head and head.claim_id in claims and opens_at(self._leases[resource]) <= now
        ]

    def _holding_claims(self, resources: list[str], limit: int) -> Rows:
        leases = (self._leases[r] for r in resources if r in self._leases)
        return [(lease.claim_id, lease.fence) for lease in leases if lease.claim_id is not None]

    def _leases_after(self, after: str, limit: int) -> Rows:
        held = [x for r, x in sorted(self._leases.items()) if x.claim_id is not None and r > after]
        return [astuple(lease) for lease in held[:limit]]

    def _get_lease(self, resource: str) -> Rows:
        return [astuple(self._leases[resource])] if resource in self._leases else []

    def _lease_waiters(self, resource: str, now: float, limit: int) -> Rows:
        return [astuple(w) for w in self._waiters(resource) if w.alive_until > now][:limit]

    def _waiter_stats(self, now: float) -> Rows:
        asked = [w.asked_at for r in self._queues for w in self._waiters(r) if w.alive_until > now]
        return [(len(asked), min(asked, default=None))]

    def _audit_lease(
        self,
        *,
        resource: str,
        now: float,
        actor: str,
        reason: str,
        fence: int,
        claim_id: str,
        owner: str,
    ) -> Rows:
        self._audits.append(Audit(resource, now, "revoked", actor, reason, fence, claim_id, owner))
        return [1]

    def _prune_lease_audit(self, before: float, limit: int) -> Rows:
        self._audits = [audit for audit in self._audits if audit.at >= before]
        return [1]

    def _lease_audit(self, resource: str, limit: int) -> Rows:
        return [audit for audit in reversed(self._audits) if audit.resource == resource][:limit]
