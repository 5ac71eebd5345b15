"""Locks for blocking code, over an event loop in a background thread.

    with BlockingLocks.connect("sqlite:///app.db") as locks, locks.hold("host:42", ttl=30) as lease:
        work(lease.fence)
        lease.check()

Promises: any thread may call; leases are renewed in the background. Never: interrupts the body, because a
thread cannot be cancelled. Call `check` before each effect that must not happen twice, and send the fence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Generic, Self, TypeVar

from holdfast.clock import Clock
from holdfast.core.lease import Audit, LossReason
from holdfast.core.steps import settled
from holdfast.errors import NotRunning
from holdfast.metrics import Meter
from holdfast.portal import Portal
from holdfast.primitives.locks.base import TTL_SECONDS, WAIT_SECONDS, LocksBase
from holdfast.primitives.locks.efficiency import EfficiencyLease, EfficiencyLocks
from holdfast.primitives.locks.lease import HeldLease
from holdfast.primitives.locks.locks import Lease, LeaseInfo, Locks

L = TypeVar("L", bound=HeldLease)
B = TypeVar("B", bound="BlockingHeldLease[Any]")


class BlockingHeldLease(Generic[L]):
    """The common part of `BlockingLease` and `BlockingEfficiencyLease`."""

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
        """Raises LeaseLost if the lease is lost or released. Compares the deadline with the clock now."""
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
        _release(self._lease, self._portal)

    async def _check(self) -> None:
        self._lease.check()


class BlockingLease(BlockingHeldLease[Lease]):
    """`Lease` for threads."""

    @property
    def fence(self) -> int:
        return self._lease.fence

    def guard(self, connection: object) -> None:
        """See `Lease.guard`; `connection` is an apsw connection."""
        self._portal.call(lambda: self._lease.guard(connection))

    def verify(self) -> None:
        self._portal.call(self._lease.verify)


class BlockingEfficiencyLease(BlockingHeldLease[EfficiencyLease]):
    """`EfficiencyLease` for threads; it has no fence."""


class _BlockingLocksBase(Generic[L, B]):
    """The common part of `BlockingLocks` and `BlockingEfficiencyLocks`."""

    def __init__(self, make: Callable[[], LocksBase[L]], wrap: Callable[[L, Portal], B]) -> None:
        self._portal = Portal("locks")
        self._locks = self._portal.call(_in_event_loop(make))
        self._wrap = wrap

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
            yield self._wrap(lease, self._portal)
        except BaseException:
            _release(lease, self._portal)
            raise
        _release(lease, self._portal)
        if lease.lost.is_set():
            raise lease.loss()

    def close(self) -> None:
        """See `Locks.close`; waiting threads get NotRunning."""
        if not self._portal.is_closed:
            self._portal.call(self._locks.close)
            self._portal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class BlockingLocks(_BlockingLocksBase[Lease, BlockingLease]):
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


class BlockingEfficiencyLocks(_BlockingLocksBase[EfficiencyLease, BlockingEfficiencyLease]):
    """`EfficiencyLocks` for threads."""

    @classmethod
    def connect(
        cls, urls: str | Sequence[str], *, clock: Clock | None = None, meter: Meter | None = None
    ) -> Self:
        return cls(
            lambda: EfficiencyLocks.connect(urls, clock=clock, meter=meter),
            BlockingEfficiencyLease,
        )


def _release(lease: HeldLease, portal: Portal) -> None:
    """Ctrl-C does not interrupt the release. Closed locks have released everything already."""
    if not portal.is_closed:
        with suppress(NotRunning):
            settled(portal.finish(lease.release))


def _in_event_loop(make: Callable[[], LocksBase[L]]) -> Callable[[], Any]:
    """Makes the locks in the event loop that they are bound to."""

    async def call_make() -> LocksBase[L]:
        return make()

    return call_make
