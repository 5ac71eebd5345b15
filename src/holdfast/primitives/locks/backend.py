"""Where leases are kept: runs the scripts of `store.scripts.leases`.

Promises: one script, one transaction. In memory the same scripts run over dicts, so that a test with locks
needs no database and means the same.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeVar

from msgspec.structs import astuple, replace

from holdfast.bus.port import Bus
from holdfast.clock import Clock
from holdfast.core.lease import LeaseRow, Waiter, opens_at
from holdfast.errors import InvalidInput
from holdfast.store.script import Rows, Script, StatementCall
from holdfast.store.scripts.leases import Audit, Hinter, Teller
from holdfast.store.store import Store

T = TypeVar("T")
Make = Callable[[Hinter, float], Script[T]]


class LockBackend(Protocol):
    """A script gets whom to give hints to, and what the store's clock says."""

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def run(self, make: Make[T], *, repeatable: bool = True) -> T:
        """`repeatable`: a second run of a committed script gives the same answer, because what it does is
        known by its claim and fence."""
        ...

    async def run_in_tx(self, connection: object, make: Make[T]) -> T:
        """Within the transaction that a caller has open."""
        ...

    async def query(self, statement: str, **params: Any) -> Rows: ...

    def reading(self) -> float:
        """What the store's clock says; a lease keeps its own mark that never goes back."""
        ...


class StoreBackend:
    """SQLite or PostgreSQL."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.open = store.open
        self.close = store.close
        self.query = store.query
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
    """This process, any number of threads and event loops. The clock is monotonic: setting the wall clock
    changes nothing."""

    def __init__(self, clock: Clock, bus: Bus | None = None) -> None:
        """`bus`: tells the other users of the same backend."""
        self._clock = clock
        self._bus = bus
        self._hints: list[str] = []
        self._mutex = threading.Lock()
        self._offset = clock.now() - clock.monotonic()
        self._leases: dict[str, LeaseRow] = {}
        self._lines: dict[str, dict[str, Waiter]] = {}
        self._audits: list[Audit] = []

    async def open(self) -> None:
        """Nothing to connect."""

    async def close(self) -> None:
        """Nothing to close."""

    def reading(self) -> float:
        return self._clock.monotonic() + self._offset

    def hint(self, text: str) -> Script[None]:
        """There is no other process, but there may be others in this one."""
        self._hints.append(text)
        yield from ()

    def tell(self, kind: str, now: float, data: dict[str, object]) -> Script[None]:
        """There is no feed."""
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
            wanted = next(script)
            while True:
                wanted = script.send(self._execute(wanted))
        except StopIteration as end:
            value: T = end.value
            return value

    async def run_in_tx(self, connection: object, make: Make[T]) -> T:
        raise InvalidInput("locks in memory have no transactions: use `await lease.verify()`")

    async def query(self, statement: str, **params: Any) -> Rows:
        with self._mutex:
            return self._execute(StatementCall(statement, params))

    def _execute(self, wanted: StatementCall) -> Rows:
        rows: Iterable[Any] = getattr(self, f"_{wanted.name}")(**wanted.params)
        return list(rows)

    # -- the statements, by name -----------------------------------------------------------------

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

    def _line(self, resource: str) -> list[Waiter]:
        """In the order of tickets, which is that of coming."""
        return list(self._lines.get(resource, {}).values())

    def _lease_queue(self, resource: str, claim_id: str, now: float) -> Rows:
        line = self._line(resource)
        head = [waiter for waiter in line if waiter.alive_until > now][:1]
        own = [waiter for waiter in line if waiter.claim_id == claim_id and waiter not in head]
        return [astuple(waiter) for waiter in head + own]

    def _count_waiters(self, resource: str) -> Rows:
        return [(len(self._line(resource)),)]

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
        line = self._lines.setdefault(resource, {})
        waiter = line.get(claim_id) or Waiter(ticket, claim_id, owner, now, alive_until)
        line[claim_id] = replace(waiter, alive_until=alive_until)
        return [1]

    def _drop_waiters(self, resource: str, claim_id: str, now: float) -> Rows:
        kept = [w for w in self._line(resource) if w.claim_id != claim_id and w.alive_until > now]
        self._lines[resource] = {waiter.claim_id: waiter for waiter in kept}
        if not kept:
            del self._lines[resource]
        return [1]

    def _ready_waiters(self, claims: list[str], limit: int, now: float) -> Rows:
        heads = (
            (r, next((w for w in self._line(r) if w.alive_until > now), None)) for r in self._lines
        )
        return [
            (head.claim_id,)
            for resource, head in heads
            if head and head.claim_id in claims and opens_at(self._leases[resource]) <= now
        ]

    def _holding_claims(self, resources: list[str], limit: int) -> Rows:
        found = (self._leases[r] for r in resources if r in self._leases)
        return [(lease.claim_id, lease.fence) for lease in found if lease.claim_id is not None]

    def _leases_after(self, after: str, limit: int) -> Rows:
        held = [x for r, x in sorted(self._leases.items()) if x.claim_id is not None and r > after]
        return [astuple(lease) for lease in held[:limit]]

    def _get_lease(self, resource: str) -> Rows:
        return [astuple(self._leases[resource])] if resource in self._leases else []

    def _lease_waiters(self, resource: str, now: float, limit: int) -> Rows:
        return [astuple(w) for w in self._line(resource) if w.alive_until > now][:limit]

    def _waiter_stats(self, now: float) -> Rows:
        asked = [w.asked_at for r in self._lines for w in self._line(r) if w.alive_until > now]
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
        self._audits = [each for each in self._audits if each.at >= before]
        return [1]

    def _lease_audit(self, resource: str, limit: int) -> Rows:
        return [each for each in reversed(self._audits) if each.resource == resource][:limit]
