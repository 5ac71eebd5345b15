"""Locks with a fence: leases in the database, for work that must not be done by two holders.

    locks = Locks.connect("postgresql://...")      # or sqlite:///file.db, sqlite://, memory://
    async with locks.hold("host:42", ttl=30, wait=10) as lease:
        await work(lease.fence)

Promises: see docs/howto/locks.md, each with its test. Never: Redis; its leases have no fence, so it has
`EfficiencyLocks`.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple, Self

from holdfast.bus.backends import bus_for
from holdfast.bus.port import FEED, Bus
from holdfast.clock import Clock, SystemClock
from holdfast.core import lease as rules
from holdfast.core.address import is_redis, memory_name
from holdfast.core.check import check_name, check_page, check_text, check_whole
from holdfast.core.ids import Ids
from holdfast.core.lease import Audit, LeaseDenied, LeaseGranted, LeaseRequest, LossReason, Waiter
from holdfast.errors import BadConfig, LeaseLost, NotFound
from holdfast.metrics import Meter, NullMeter
from holdfast.primitives.locks import meters
from holdfast.primitives.locks.backend import LockBackend, StoreBackend
from holdfast.primitives.locks.base import LockRequest, LocksBase
from holdfast.primitives.locks.lease import HeldLease
from holdfast.primitives.locks.memory import memory_space
from holdfast.store.backends import secret_ids, store_for
from holdfast.store.beside import Beside
from holdfast.store.scripts import leases as scripts

WAITER_SECONDS: Final = 3.0
"""A waiter keeps its place this long after its last request. Any number of dead waiters delay those behind
them by no more than this."""
PAGE: Final = 100
FENCE_MAX: Final = 2**63 - 1


class Lease(HeldLease):
    """The right to a resource, with the fence that proves it."""

    def __init__(self, locks: Locks, request: LockRequest, *, fence: int, asked_at: float) -> None:
        super().__init__(
            request.resource,
            _DatabaseLeaseStore(locks, request, fence),
            claim_id=request.claim_id,
            ttl=request.ttl,
            asked_at=asked_at,
            clock=locks._clock,
            meter=locks._meter,
            tasks=locks._tasks,
            margin=locks._margin,
        )
        self.fence: Final = fence
        """Rises with every grant of the resource. Send it with each write."""
        self._locks = locks

    async def guard(self, connection: object) -> None:
        """Checks the fence in the open transaction of the caller's connection to the same database (asyncpg
        or apsw). LeaseLost if the resource was granted to another claim. Otherwise no other claim is granted
        until the transaction ends, so only the holder can commit it."""
        await self._locks.guard(self.resource, self.claim_id, self.fence, connection=connection)

    async def verify(self) -> None:
        """Asks the store: LeaseLost if the resource was granted to another claim. The answer may be outdated
        at once; only `guard` covers a write."""
        await self._locks.guard(self.resource, self.claim_id, self.fence)


class LeaseInfo(NamedTuple):
    """The state of a resource. Times are durations, so no two clocks have to agree."""

    resource: str
    fence: int
    is_held: bool
    owner: str
    claim_id: str | None
    ttl_seconds: float
    held_seconds: float
    seconds_left: float
    waiters: tuple[WaiterInfo, ...] = ()
    audit: tuple[Audit, ...] = ()


class WaiterInfo(NamedTuple):
    owner: str
    claim_id: str
    waited_seconds: float


class QueueStats(NamedTuple):
    depth: int
    oldest_seconds: float


class Locks(LocksBase[Lease]):
    """Leases on one store."""

    def __init__(
        self,
        backend: LockBackend,
        bus: Bus,
        *,
        clock: Clock,
        ids: Ids | None = None,
        owner: str | None = None,
        meter: Meter | None = None,
        waiter_seconds: float = WAITER_SECONDS,
        margin: Callable[[float], float] = rules.margin_seconds,
    ) -> None:
        super().__init__(clock, ids or secret_ids(), meter or NullMeter(), margin)
        self._backend = backend
        self._bus = bus
        self._given_owner = owner
        self._owner = owner or _process_name()
        self._waiter_seconds = waiter_seconds
        self._is_checking = False
        self._check_again = False

    @classmethod
    def connect(
        cls,
        url: str = "memory://",
        *,
        clock: Clock | None = None,
        owner: str | None = None,
        meter: Meter | None = None,
        waiter_seconds: float = WAITER_SECONDS,
        margin: Callable[[float], float] = rules.margin_seconds,
        create: bool = True,
    ) -> Self:
        """Connects on first use. `owner` is a name to show to operators. `margin` maps a ttl to the seconds
        by which a holder stops relying on its lease before the store ends it. With `create=False`, a store
        that does not exist is an error."""
        if is_redis(url):
            raise BadConfig(
                "Redis has no fences: use EfficiencyLocks.connect(url) if a lock only saves work, or put "
                "the locks where the data is: sqlite:///file.db, postgresql://..."
            )
        backend, bus = _backend(url, clock, create=create)
        return cls(
            backend,
            bus,
            clock=clock or SystemClock(),
            owner=owner,
            meter=meter,
            waiter_seconds=waiter_seconds,
            margin=margin,
        )

    _outlives_loops = True

    # -- for operators -----------------------------------------------------------------------------

    async def revoke(
        self, resource: str, *, by: str, reason: str = "", beside: Beside | None = None
    ) -> Audit:
        """Takes the lease from its holder. The fence rises, so later guarded writes of the holder are
        refused; the holder is notified; the revocation is recorded. NotFound if the resource is free.
        `beside`: for operators of a store, see `holdfast.store.beside`."""
        rules.check_resource(resource)
        check_name("by", by)
        check_text("reason", reason)
        await self.open()
        revoked = await self._backend.run(
            lambda hinter, now: scripts.revoke(hinter, resource, by, reason, now, beside=beside),
            repeatable=False,
        )
        if revoked is None:
            raise NotFound(f"'{resource}' is not held")
        audit, next_claim = revoked
        self._meter.count(meters.REVOKED)
        self._bus.publish(FEED)
        self._wake(audit.claim_id)
        self._wake(next_claim)
        return audit

    async def list(self, *, after: str = "", limit: int = PAGE) -> list[LeaseInfo]:
        """Held leases, sorted by resource. `after`: the last resource of the previous page."""
        if after != "":
            check_name("after", after, most=rules.RESOURCE_MAX)
        check_page(limit)
        await self.open()
        leases = await self._backend.read(lambda: scripts.held_after(after, limit))
        return [_info(lease, self._backend.reading()) for lease in leases]

    async def show(self, resource: str) -> LeaseInfo:
        """One resource, its waiters in queue order, and its revocations, latest first."""
        rules.check_resource(resource)
        await self.open()
        details = await self._backend.run(lambda _, now: scripts.show(resource, now))
        if details is None:
            raise NotFound(f"'{resource}' was never held")
        info = _info(details.lease, details.lease.clock_at)
        waiters = tuple(_waiter(waiter, details.lease.clock_at) for waiter in details.waiters)
        return info._replace(waiters=waiters, audit=tuple(details.audit))

    async def measure(self) -> QueueStats:
        """Counts waiters and the age of the oldest; also sets the gauges."""
        await self.open()
        now = self._backend.reading()
        depth, oldest_at = await self._backend.read(lambda: scripts.count_waiting(now))
        stats = QueueStats(depth, 0.0 if oldest_at is None else max(0.0, now - oldest_at))
        self._meter.gauge(meters.DEPTH, stats.depth)
        self._meter.gauge(meters.OLDEST, stats.oldest_seconds)
        return stats

    async def guard(
        self, resource: str, claim_id: str, fence: int, *, connection: object = None
    ) -> None:
        """See `Lease.guard`; for a process that has only the claim and the fence."""
        rules.check_resource(resource)
        check_name("claim_id", claim_id, most=rules.RESOURCE_MAX)
        check_whole("fence", fence, least=0, most=FENCE_MAX)
        await self.open()
        script = partial(scripts.guard, resource, claim_id, fence)
        if connection is None:
            holds = await self._backend.run(lambda *_: script())
        else:
            holds = await self._backend.run_in_tx(connection, lambda *_: script())
        if not holds:
            self._meter.count(meters.REJECTIONS)
            raise LeaseLost(
                f"fence {fence} of '{resource}' is no longer the newest: this write is refused"
            )

    # -- requests ----------------------------------------------------------------------------------

    async def _ask(self, request: LockRequest) -> Callable[[float], Lease] | LeaseDenied:
        lease_request = LeaseRequest(
            request.resource,
            request.claim_id,
            self._owner,
            request.ttl,
            request.grace,
            self._waiter_seconds if request.waits else 0.0,
        )
        verdict = await self._backend.run(
            lambda hinter, now: scripts.ask(hinter, lease_request, now)
        )
        match verdict:
            case LeaseGranted(lease=lease, took_over=took_over):
                if took_over:
                    self._bus.publish(FEED)
                return lambda asked_at: Lease(self, request, fence=lease.fence, asked_at=asked_at)
            case LeaseDenied():
                return verdict

    async def _leave(self, request: LockRequest) -> None:
        next_claim = await self._backend.run(
            lambda hinter, now: scripts.leave(hinter, request.resource, request.claim_id, now)
        )
        self._wake(next_claim)

    # -- hints -------------------------------------------------------------------------------------

    async def _open(self) -> None:
        await self._backend.open()
        await self._bus.start()
        self._unsubscribe = self._bus.subscribe(self._hinted)

    def start_over(self) -> None:
        super().start_over()
        self._owner = self._given_owner or _process_name()
        self._is_checking = self._check_again = False

    async def _close(self) -> None:
        self._unsubscribe()
        await self._bus.stop()
        await self._backend.close()

    def _hinted(self, topic: str) -> None:
        if topic.startswith(scripts.HINT):
            self._wake(topic.removeprefix(scripts.HINT))
        elif (self._wakes or self._held) and self._is_open:
            # The hint names no claim: one read checks all claims of this process.
            self._check_again = True
            if not self._is_checking:
                self._is_checking = True
                self._tasks.spawn(self._check_claims())

    def _wake(self, claim_id: str | None) -> None:
        if claim_id is None:
            return
        if claim_id in self._wakes:
            self._wakes[claim_id].set()
        for lease in self._held:
            if lease.claim_id == claim_id:
                lease.check_store()

    async def _check_claims(self) -> None:
        """Reads only: a write would hint other processes, which would check and write in turn."""
        try:
            while self._check_again:
                self._check_again = False
                now = self._backend.reading()
                if self._wakes:
                    claims = list(self._wakes)
                    for claim_id in await self._backend.read(partial(scripts.ready, claims, now)):
                        self._wake(claim_id)
                held = {(lease.claim_id, lease.fence): lease for lease in self._held}
                if held:
                    names = [lease.resource for lease in held.values()]
                    holders = await self._backend.read(partial(scripts.holders, names))
                    for key in held.keys() - holders:
                        held[key].check_store()
        finally:
            self._is_checking = False


class _DatabaseLeaseStore:
    """Renews and releases one `Lease` in the database."""

    def __init__(self, locks: Locks, request: LockRequest, fence: int) -> None:
        self._locks = locks
        self._resource = request.resource
        self._claim_id = request.claim_id
        self._fence = fence

    async def renew(self, ttl: float) -> LossReason | None:
        return await self._locks._backend.run(
            lambda _, now: scripts.renew(self._resource, self._claim_id, self._fence, ttl, now)
        )

    async def release(self) -> LossReason | None:
        reason, next_claim = await self._locks._backend.run(
            lambda hinter, now: scripts.release(
                hinter, self._resource, self._claim_id, self._fence, now
            )
        )
        self._locks._wake(next_claim)
        return reason


def _process_name() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"


def _backend(url: str, clock: Clock | None, *, create: bool) -> tuple[LockBackend, Bus]:
    used_clock = clock or SystemClock()
    if (name := memory_name(url)) is not None:
        return memory_space(name, used_clock)
    store = store_for(url, used_clock, server_time=clock is None, create=create)()
    return StoreBackend(store), bus_for(url, used_clock, store.file, name=store.ids.secret())


def _info(lease: rules.LeaseRow, now: float) -> LeaseInfo:
    now = max(now, lease.clock_at)
    left = max(0.0, lease.expires_at - now) if lease.claim_id is not None else 0.0
    return LeaseInfo(
        lease.resource,
        lease.fence,
        left > 0.0,
        lease.owner,
        lease.claim_id,
        lease.ttl_seconds,
        now - lease.granted_at if left > 0.0 else 0.0,
        left,
    )


def _waiter(waiter: Waiter, now: float) -> WaiterInfo:
    return WaiterInfo(waiter.owner, waiter.claim_id, max(0.0, now - waiter.asked_at))
