"""Holding a lock: renewal, loss, release, clocks. docs/howto/locks.md links here."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.core import lease as rules
from holdfast.errors import (
    LeaseLost,
    NotRunning,
    WaitTimeout,
)
from holdfast.primitives.locks import Locks, LossReason
from holdfast.primitives.locks.backend import StoreBackend
from holdfast.store.scripts import leases as scripts
from tests.conformance.locks.support import LocksBench, backend_of, is_free


async def test_a_held_lease_is_renewed(
    locks_bench: LocksBench, locks: Locks, others: Locks
) -> None:
    lease = await locks.acquire("r", ttl=30)
    for _ in range(10):
        await locks_bench.advance(29)
        lease.check()
        with pytest.raises(WaitTimeout):
            await others.acquire("r", wait=0)
    assert locks_bench.metrics.value("holdfast_lock_renew_seconds") >= 29


async def test_the_next_waiter_is_granted_after_the_ttl_of_a_dead_holder(
    locks_bench: LocksBench, locks: Locks, others: Locks
) -> None:
    lease = await locks.acquire("r", ttl=30)
    assert lease._renewal_loop is not None
    lease._renewal_loop.cancel()
    waiting = asyncio.create_task(others.acquire("r", wait=60))
    await locks_bench.advance(29.9)
    assert not waiting.done()
    await locks_bench.advance(0.2)
    assert (await waiting).fence == 2


async def test_a_renewal_never_acquires(locks_bench: LocksBench, locks: Locks) -> None:
    lease = await locks.acquire("r", ttl=30)
    assert lease._renewal_loop is not None
    lease._renewal_loop.cancel()
    locks_bench.clock.set(locks_bench.clock.now() + 31)
    assert await lease._store.renew(lease.ttl) is LossReason.EXPIRED
    assert await is_free(locks)


async def test_a_lease_is_lost_before_the_next_one_is_granted(
    locks_bench: LocksBench, locks: Locks, others: Locks
) -> None:
    clock = locks_bench.clock
    lease = await locks.acquire("r", ttl=30)
    lost_at: list[float] = []
    lease.when_lost(lambda: lost_at.append(clock.now()))
    granted: list[float] = []

    async def follow() -> None:
        async with others.hold("r", ttl=30, wait=100):
            granted.append(clock.now())

    following = asyncio.create_task(follow())
    await locks_bench.settle()
    backend_of(locks).is_cut = True
    await locks_bench.advance(60)
    await following
    assert lease.lost.reason is LossReason.STORE_UNREACHABLE
    assert lost_at[0] < granted[0]
    with pytest.raises(LeaseLost):
        lease.check()


async def test_the_body_is_cancelled_when_the_lease_is_lost(
    locks_bench: LocksBench, locks: Locks
) -> None:
    ended: list[str] = []

    async def body() -> None:
        async with locks.hold("r", ttl=30) as lease:
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(str(lease.lost.reason))

    running = asyncio.create_task(body())
    await locks_bench.settle()
    backend_of(locks).is_cut = True
    await locks_bench.advance(31)
    with pytest.raises(LeaseLost, match="store_unreachable"):
        await running
    assert ended == ["store_unreachable"]
    assert not running.cancelled()


async def test_one_missed_renewal_is_not_a_loss(locks_bench: LocksBench, locks: Locks) -> None:
    lease = await locks.acquire("r", ttl=30)
    backend_of(locks).is_cut = True
    await locks_bench.advance(19)
    backend_of(locks).is_cut = False
    await locks_bench.advance(60)
    lease.check()
    assert locks_bench.metrics.value("holdfast_lock_renew_failures_total") > 0


async def test_a_renewal_after_another_grant_is_lost_as_fenced(
    locks_bench: LocksBench, locks: Locks, others: Locks
) -> None:
    lease = await locks.acquire("r", ttl=30)
    assert lease._renewal_loop is not None
    lease._renewal_loop.cancel()
    await locks_bench.advance(31)
    await others.acquire("r", wait=0)
    assert await lease._store.renew(lease.ttl) is LossReason.FENCED
    with pytest.raises(LeaseLost):
        await lease.verify()
    assert locks_bench.metrics.value("holdfast_lock_fencing_rejections_total") == 1


async def test_closing_cancels_holders_and_releases_every_lease(
    locks_bench: LocksBench, locks: Locks, others: Locks
) -> None:
    async def body() -> None:
        async with locks.hold("r", ttl=30):
            await asyncio.Event().wait()

    running = asyncio.create_task(body())
    await locks_bench.settle()
    closing = asyncio.create_task(locks.close())
    with pytest.raises(LeaseLost, match="shutdown"):
        await running
    await closing
    assert await is_free(others)
    with pytest.raises(NotRunning):
        await locks.acquire("r")


async def test_a_release_is_idempotent_and_never_ends_a_later_lease(
    locks: Locks, others: Locks
) -> None:
    lease = await locks.acquire("r")
    await lease.release()
    await lease.release()
    following = await others.acquire("r", wait=0)
    await lease._store.release()
    await following.verify()


async def test_releasing_a_revoked_lease_raises_its_loss(
    locks_bench: LocksBench, locks: Locks, others: Locks
) -> None:
    with pytest.raises(LeaseLost, match="revoked"):
        async with locks.hold("r"):
            await others.revoke("r", by="ann")


async def test_the_error_of_the_body_is_not_masked(
    locks_bench: LocksBench, locks: Locks, others: Locks
) -> None:
    async def fail(*, cut: bool) -> None:
        async with locks.hold("r"):
            backend_of(locks).is_cut = cut
            if not cut:
                await others.revoke("r", by="ann")
            raise ValueError("mine")

    for cut in (False, True):
        with pytest.raises(ValueError, match="mine"):
            await fail(cut=cut)


async def test_a_clock_set_back_only_lengthens_a_lease(
    locks_bench: LocksBench, locks: Locks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For a process that starts after the clock was set, and for one that started before."""
    backend = await locks_bench.backend()
    readings = {"back": 0.0}
    real = backend.reading

    def reading() -> float:
        return real() - readings["back"]

    monkeypatch.setattr(backend, "reading", reading)
    if isinstance(backend, StoreBackend):
        monkeypatch.setattr(backend._store, "now", reading)
    first = rules.LeaseRequest("r", "first", "a", 30.0)
    await backend.run(lambda hinter, now: scripts.ask(hinter, first, now))
    await backend.run(lambda hinter, now: scripts.leave(hinter, "r", "first", now))
    readings["back"] = 500.0
    second = rules.LeaseRequest("r", "second", "b", 30.0)
    assert isinstance(
        await backend.run(lambda hinter, now: scripts.ask(hinter, second, now)), rules.LeaseGranted
    )
    readings["back"] = 0.0  # as read by a process that started before the clock was set
    locks_bench.clock.set(locks_bench.clock.now() + 29)
    third = rules.LeaseRequest("r", "third", "c", 30.0)
    assert isinstance(
        await backend.run(lambda hinter, now: scripts.ask(hinter, third, now)), rules.LeaseDenied
    )


async def test_a_clock_set_forward_ends_a_lease_early_and_the_fence_refuses_it(
    locks_bench: LocksBench, locks: Locks, others: Locks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The holder counts seconds on its monotonic clock; the clock of the store was set forward."""
    lease = await locks.acquire("r", ttl=30)
    real = backend_of(others).backend.reading

    def reading() -> float:
        return real() + 3600

    backend = backend_of(others).backend
    monkeypatch.setattr(backend, "reading", reading)
    if isinstance(backend, StoreBackend):
        monkeypatch.setattr(backend._store, "now", reading)
    assert (await others.acquire("r", wait=0)).fence == 2
    lease.check()
    with pytest.raises(LeaseLost):
        await lease.verify()
