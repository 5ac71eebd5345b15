"""Locks for code that was written for a lock on one Redis: milliseconds, None when a lock is held.

    locks = DistributedLock.connect("postgresql://...")         # or sqlite:///file.db, memory://, redis://...
    handle = await locks.acquire(f"task:{task_id}")             # None: it is held
    async with locks.exclusively(f"task:{task_id}") as handle:  # ConcurrentModificationError: it is held
        await update_with_retry(lambda: save(task, handle.fence))

A thin layer over `Locks` and `EfficiencyLocks`; docs/howto/locks.md lists the differences.
Times are whole milliseconds.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, Self, TypeVar

from holdfast.clock import Clock
from holdfast.core.address import check_address, is_redis
from holdfast.core.check import check_whole
from holdfast.core.lease import TTL_SECONDS_MAX
from holdfast.errors import LeaseLost, VersionConflict, WaitTimeout
from holdfast.primitives.locks.efficiency import EfficiencyLocks
from holdfast.primitives.locks.errors import ConcurrentModification, TaskAlreadyAssigned
from holdfast.primitives.locks.lease import HeldLease
from holdfast.primitives.locks.locks import Lease, Locks
from holdfast.primitives.retry import aretry

T = TypeVar("T")
TTL_MS: Final = 30_000
OptimisticLockError = VersionConflict
ConcurrentModificationError = ConcurrentModification
TaskAlreadyAssignedError = TaskAlreadyAssigned


class LockHandle:
    """A held lock, renewed until it is released or lost."""

    def __init__(self, lease: HeldLease) -> None:
        self.lease = lease
        self.resource = lease.resource
        self.token = lease.claim_id
        self._is_released = False

    @property
    def fence(self) -> int | None:
        """Send it with each write; None on Redis, which has no fences."""
        return self.lease.fence if isinstance(self.lease, Lease) else None

    async def release(self) -> bool:
        """False if the lock was no longer held."""
        was_held, self._is_released = not self._is_released, True
        await self.lease.release()
        return was_held and not self.lease.lost.is_set()

    async def extend(self, ms: int) -> bool:
        """Makes the lock last at least `ms` milliseconds from now. False if it was no longer held."""
        if self._is_released:
            return False
        try:
            await self.lease.extend(_seconds(ms))
        except LeaseLost:
            return False
        return True


class DistributedLock:
    """Acquires free locks; never waits."""

    def __init__(self, locks: Locks | EfficiencyLocks) -> None:
        self._locks = locks

    @classmethod
    def connect(cls, url: str, *, clock: Clock | None = None) -> Self:
        """Connects on first use."""
        if is_redis(check_address(url)):
            return cls(EfficiencyLocks.connect(url, clock=clock))
        return cls(Locks.connect(url, clock=clock))

    async def acquire(self, resource: str, ttl: int = TTL_MS) -> LockHandle | None:
        """The lock, or None if it is held. `ttl` is in milliseconds."""
        try:
            return LockHandle(await self._locks.acquire(resource, ttl=_seconds(ttl), wait=0.0))
        except WaitTimeout:
            return None

    @asynccontextmanager
    async def exclusively(self, resource: str, ttl: int = TTL_MS) -> AsyncIterator[LockHandle]:
        """Holds the lock while the body runs. ConcurrentModificationError if it is held already."""
        handle = await self.acquire(resource, ttl)
        if handle is None:
            raise ConcurrentModification(
                f"'{resource}' is being modified by another process: try again later"
            )
        try:
            yield handle
        finally:
            await handle.release()

    async def close(self) -> None:
        await self._locks.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


async def update_with_retry(
    operation: Callable[[], Awaitable[T]], max_retries: int = 3, *, clock: Clock | None = None
) -> T:
    """Retries an update after OptimisticLockError, up to `max_retries` attempts in all. The operation must
    read, decide and write each time. The pauses are 100 ms, 200 ms, ..., shortened by jitter."""
    return await aretry(
        operation,
        attempts=max_retries,
        base_ms=100,
        retryable=lambda error: isinstance(error, VersionConflict),
        clock=clock,
    )


def _seconds(ms: int) -> float:
    return (
        check_whole("the time in milliseconds", ms, least=1, most=int(TTL_SECONDS_MAX * 1_000))
        / 1_000
    )
