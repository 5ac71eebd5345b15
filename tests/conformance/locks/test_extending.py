"""Extending a lease, holders on a suspended machine, `DistributedLock`."""

from __future__ import annotations

import pytest

from holdfast.clock import VirtualClock
from holdfast.core.lease import LossReason
from holdfast.errors import InvalidInput, LeaseLost, StoreUnavailable, VersionConflict
from holdfast.primitives.locks import (
    ConcurrentModificationError,
    DistributedLock,
    Locks,
    OptimisticLockError,
    TaskAlreadyAssignedError,
    update_with_retry,
)
from holdfast.primitives.locks.held import SUSPEND_CHECK_SECONDS
from tests.conformance.locks.support import LocksBench, backend_of, is_free


async def test_extend_renews_a_lease_for_a_new_ttl(locks_bench: LocksBench, locks: Locks) -> None:
    lease = await locks.acquire("r", ttl=10)
    await lease.extend(100)
    assert lease.seconds_left == pytest.approx(99, abs=1)
    assert (await locks.show("r")).seconds_left == pytest.approx(100, abs=1)
    await locks_bench.advance(60)
    assert lease.seconds_left > 60, "it is renewed for its new ttl"
    await lease.extend(3)
    await locks_bench.advance(60)
    assert lease.seconds_left > 0, "a shorter ttl is renewed more often"
    await lease.release()
    assert await is_free(locks)


async def test_a_released_lease_does_not_pass_a_check(locks: Locks) -> None:
    lease = await locks.acquire("r", ttl=10)
    lease.check()
    await lease.release()
    with pytest.raises(LeaseLost, match="released"):
        lease.check()
    assert (lease.seconds_left, lease.lost.is_set()) == (0.0, False)
    assert "released" in repr(lease)


async def test_an_extension_never_acquires(
    locks_bench: LocksBench, locks: Locks, others: Locks
) -> None:
    lease = await locks.acquire("r", ttl=10)
    await others.revoke("r", by="ann")
    with pytest.raises(LeaseLost, match="revoked"):
        await lease.extend(10)
    with pytest.raises(InvalidInput):
        await lease.extend(0)
    assert await is_free(others)


async def test_an_extension_that_fails_changes_nothing(
    locks_bench: LocksBench, locks: Locks
) -> None:
    lease = await locks.acquire("r", ttl=10)
    backend_of(locks).is_cut = True
    with pytest.raises(StoreUnavailable):
        await lease.extend(100)
    assert lease.seconds_left < 10


class Suspending(VirtualClock):
    """The clock of a machine that can be suspended: time passes while timers stand still."""

    __slots__ = ()

    def suspend(self, seconds: float) -> None:
        self._time += seconds
        self._sleepers = [(due + seconds, n, event) for due, n, event in self._sleepers]


@pytest.fixture
def clock() -> Suspending:
    return Suspending()


async def test_a_holder_notices_expiry_right_after_a_suspend(
    locks_bench: LocksBench, locks: Locks, others: Locks, clock: Suspending
) -> None:
    lease = await locks.acquire("r", ttl=30)
    await locks_bench.advance(1)
    clock.suspend(60)
    assert lease.seconds_left == 0.0, "a caller that asks knows at once"
    assert not lease.lost.is_set()
    await locks_bench.advance(SUSPEND_CHECK_SECONDS)
    assert lease.lost.reason is LossReason.EXPIRED, "without waiting for the renewal timer"


async def test_distributed_lock_acquires_extends_and_releases(locks: Locks, others: Locks) -> None:
    mine, theirs = DistributedLock(locks), DistributedLock(others)
    handle = await mine.acquire("task:1")
    assert handle is not None
    assert (handle.resource, handle.fence) == ("task:1", 1)
    assert handle.lease.ttl == 30.0
    assert await theirs.acquire("task:1", ttl=1_000) is None
    with pytest.raises(ConcurrentModificationError):
        async with theirs.exclusively("task:1"):
            raise AssertionError("two at once")
    assert await handle.extend(60_000)
    assert await handle.release()
    async with theirs.exclusively("task:1") as held:
        assert held.fence == 2
        await mine._locks.revoke("task:1", by="ann")  # type: ignore[union-attr]
        assert not await held.extend(1_000)
    with pytest.raises(InvalidInput):
        await mine.acquire("task:1", ttl=1.5)  # type: ignore[arg-type]


async def test_a_released_lease_is_not_extended(locks: Locks) -> None:
    lease = await locks.acquire("r", ttl=5.0, wait=0.0)
    await lease.release()
    with pytest.raises(LeaseLost, match="was released"):
        await lease.extend(5.0)


async def test_a_task_is_assigned_by_one_of_two_callers(locks: Locks, others: Locks) -> None:
    """The usual form of a program that assigns tasks under a lock."""
    rows: dict[str, str | None] = {"7": None}

    async def assign(lock: DistributedLock, task_id: str, worker: str) -> None:
        handle = await lock.acquire(f"task:{task_id}")
        if not handle:
            raise ConcurrentModificationError("the task is being modified")
        try:
            if rows[task_id] is not None:
                raise TaskAlreadyAssignedError(task_id)
            with pytest.raises(ConcurrentModificationError):
                await assign(rival, task_id, "w9")
            assert await handle.extend(60_000) is True
            rows[task_id] = worker
        finally:
            assert await handle.release() is True

    mine, rival = DistributedLock(locks), DistributedLock(others)
    await assign(mine, "7", "w1")
    assert rows == {"7": "w1"}
    with pytest.raises(TaskAlreadyAssignedError):
        await assign(rival, "7", "w2")
    free = await rival.acquire("task:7", ttl=1_000)
    assert free is not None, "an error in the critical section releases the lock too"
    assert await free.release() is True
    assert await free.release() is False, "it is not held any more"
    assert await free.extend(1_000) is False


async def test_an_update_is_retried_after_a_version_conflict() -> None:
    tried: list[int] = []

    async def update() -> str:
        tried.append(len(tried))
        if len(tried) < 3:
            raise OptimisticLockError("version 4 is no longer the newest")
        return "written"

    assert OptimisticLockError is VersionConflict
    assert await update_with_retry(update) == "written"
    tried.clear()
    with pytest.raises(OptimisticLockError):
        await update_with_retry(update, max_retries=2)
