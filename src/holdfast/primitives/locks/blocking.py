"""The same locks for code that blocks: one event loop in a thread behind them all.

    with BlockingLocks.connect("sqlite:///app.db") as locks, locks.hold("host:42", ttl=30) as lease:
        work(lease.fence)
        lease.check()

Promises: any thread may use them; leases renew in the background. Never: interrupts the body: a thread
cannot be cancelled, so call `check` before what must not be done twice, and send the fence along.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Generic, Self, TypeVar

from holdfast.clock import Clock
from holdfast.core.lease import LossReason
from holdfast.core.steps import settled
from holdfast.errors import NotRunning
from holdfast.primitives.locks.base import TTL_SECONDS, WAIT_SECONDS, LocksBase
from holdfast.primitives.locks.efficiency import EfficiencyLease, EfficiencyLocks
from holdfast.primitives.locks.lease import HeldLease
from holdfast.primitives.locks.locks import Lease, LeaseInfo, Locks
from holdfast.primitives.metrics import Meter
from holdfast.primitives.portal import Portal
from holdfast.store.scripts.leases import Audit

L = TypeVar("L", bound=HeldLease)
B = TypeVar("B", bound="BlockingHeld[Any]")


class BlockingHeld(Generic[L]):
    """A lease as a thread sees it."""

    def __init__(self, lease: L, portal: Portal) -> None:
        self._lease = lease
        self._portal = portal
        self.resource = lease.resource

    @property
    def is_lost(self) -> bool:
        return self._lease.lost.is_set() or self._lease.seconds_left <= 0.0

    @property
    def lost_reason(self) -> LossReason | None:
        return self._lease.lost.reason

    @property
    def seconds_left(self) -> float:
        return self._lease.seconds_left

    def check(self) -> None:
        """Raises LeaseLost when the lease is lost, be it since this very moment."""
        if self._lease.lost.is_set():
            raise self._lease.loss()
        if self.is_lost:
            self._portal.call(self._check)

    def wait_lost(self) -> None:
        """Blocks until the lease is lost."""
        self._portal.call(self._lease.lost.wait)

    def extend(self, ttl: float) -> None:
        """See `Lease.extend`."""
        self._portal.call(lambda: self._lease.extend(ttl))

    def release(self) -> None:
        _released(self._lease, self._portal)

    async def _check(self) -> None:
        self._lease.check()


class BlockingLease(BlockingHeld[Lease]):
    """With a fence."""

    @property
    def fence(self) -> int:
        return self._lease.fence

    def guard(self, connection: object) -> None:
        """See `Lease.guard`; the connection is the caller's apsw connection."""
        self._portal.call(lambda: self._lease.guard(connection))

    def verify(self) -> None:
        self._portal.call(self._lease.verify)


class BlockingEfficiencyLease(BlockingHeld[EfficiencyLease]):
    """Without."""


class _Blocking(Generic[L, B]):
    """What both kinds have in common."""

    def __init__(self, make: Callable[[], LocksBase[L]], lease: Callable[[L, Portal], B]) -> None:
        self._portal = Portal("locks")
        self._locks = self._portal.call(_made(make))
        self._lease = lease

    @contextmanager
    def hold(
        self,
        resource: str,
        *,
        ttl: float = TTL_SECONDS,
        wait: float = WAIT_SECONDS,
        grace: float = 0.0,
        claim_id: str | None = None,
    ) -> Iterator[B]:
        """`with locks.hold("host:42", ttl=30, wait=10) as lease:`; see `Locks.hold`."""
        lease = self._portal.call(
            lambda: self._locks.acquire(
                resource, ttl=ttl, wait=wait, grace=grace, claim_id=claim_id
            )
        )
        try:
            yield self._lease(lease, self._portal)
        except BaseException:
            _released(lease, self._portal)
            raise
        _released(lease, self._portal)
        if lease.lost.is_set():
            raise lease.loss()

    def close(self) -> None:
        """See `Locks.close`; threads that wait get NotRunning."""
        if not self._portal.is_closed:
            self._portal.call(self._locks.close)
            self._portal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class BlockingLocks(_Blocking[Lease, BlockingLease]):
    """`Locks` for threads."""

    _locks: Locks

    @classmethod
    def connect(
        cls,
        url: str = "memory://",
        *,
        clock: Clock | None = None,
        owner: str | None = None,
        meter: Meter | None = None,
    ) -> Self:
        return cls(lambda: Locks.connect(url, clock=clock, owner=owner, meter=meter), BlockingLease)

    def revoke(self, resource: str, *, by: str, reason: str = "") -> Audit:
        return self._portal.call(lambda: self._locks.revoke(resource, by=by, reason=reason))

    def list(self, *, after: str = "", limit: int = 100) -> list[LeaseInfo]:
        return self._portal.call(lambda: self._locks.list(after=after, limit=limit))

    def show(self, resource: str) -> LeaseInfo:
        return self._portal.call(lambda: self._locks.show(resource))


class BlockingEfficiencyLocks(_Blocking[EfficiencyLease, BlockingEfficiencyLease]):
    """`EfficiencyLocks` for threads."""

    @classmethod
    def connect(
        cls, urls: str | Sequence[str], *, clock: Clock | None = None, meter: Meter | None = None
    ) -> Self:
        return cls(
            lambda: EfficiencyLocks.connect(urls, clock=clock, meter=meter),
            BlockingEfficiencyLease,
        )


def _released(lease: HeldLease, portal: Portal) -> None:
    """Ctrl-C does not break it off. Closed locks have given everything back before."""
    if not portal.is_closed:
        with suppress(NotRunning):
            settled(portal.finish(lease.release))


def _made(make: Callable[[], LocksBase[L]]) -> Callable[[], Any]:
    """Locks belong to the event loop that they are made in."""

    async def made() -> LocksBase[L]:
        return make()

    return made
