"""Closing locks that are in use, and callers cancelled at any await."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from holdfast.core.lease import LossReason
from holdfast.errors import LeaseLost, NotRunning
from holdfast.primitives.locks import Locks
from holdfast.primitives.locks.base import CLOSE_SECONDS
from holdfast.primitives.locks.lease import HeldLease
from holdfast.store.sqlite.driver import SqliteDriver
from tests.acceptance.apps.harness import eventually
from tests.cancelling import CancelAt, cancelled_everywhere
from tests.conformance.locks.support import LocksBench, backend_of, is_free


async def test_closing_refuses_waiters_and_never_grants_them(
    locks_bench: LocksBench, locks: Locks, others: Locks
) -> None:
    held = await locks.acquire("r", ttl=30)
    waiting = [asyncio.create_task(locks.acquire("r", wait=600)) for _ in range(3)]
    await locks_bench.settle()
    await asyncio.wait_for(locks.close(), 10)
    for waiter in waiting:
        with pytest.raises(NotRunning):
            await asyncio.wait_for(waiter, 10)
    assert held.lost.reason is LossReason.SHUTDOWN
    lease = await others.acquire("r", wait=0)
    assert lease.fence == 2, "the closed locks were granted nothing more"
    with pytest.raises(NotRunning):
        await locks.acquire("r")


async def test_closing_does_not_wait_for_a_holder_that_never_releases(
    locks: Locks, others: Locks
) -> None:
    await locks.acquire("r", ttl=3_600)
    waiting = asyncio.create_task(others.acquire("r", wait=0))
    with suppress(Exception):
        await waiting
    await asyncio.wait_for(locks.close(), 10)
    await asyncio.wait_for(locks.close(), 10)
    assert await is_free(others)


async def test_closing_cancels_the_body_of_a_holder(locks: Locks, others: Locks) -> None:
    entered = asyncio.Event()

    async def body() -> None:
        async with locks.hold("r"):
            entered.set()
            await asyncio.Event().wait()

    running = asyncio.create_task(body())
    await entered.wait()
    await asyncio.wait_for(locks.close(), 10)
    with pytest.raises(LeaseLost, match="shutdown"):
        await asyncio.wait_for(running, 10)
    assert await is_free(others)


async def test_closing_is_bounded_when_the_store_does_not_answer(
    locks_bench: LocksBench, locks: Locks, others: Locks
) -> None:
    backend = backend_of(locks)
    backend.gate = asyncio.Event()
    waiting = asyncio.create_task(locks.acquire("r", wait=600))
    await backend.answering.wait()
    closing = asyncio.create_task(locks.close())
    with pytest.raises(NotRunning):
        await asyncio.wait_for(waiting, 10)
    await eventually(lambda: locks_bench.clock.next_wake() is not None)
    locks_bench.clock.set(locks_bench.clock.now() + CLOSE_SECONDS)
    await asyncio.wait_for(closing, 10)


async def test_a_caller_cancelled_at_any_await_leaves_no_lease_and_no_waiter(
    locks_bench: LocksBench, locks: Locks, others: Locks
) -> None:
    async def scene(at: CancelAt) -> None:
        for store in locks_bench.bench._stores if locks_bench.bench else ():
            if isinstance(store._driver, SqliteDriver):
                store._driver._commit_seconds = 1e9  # On a quick disk it writes without suspending.
        resource = f"r-{at._suspension}"
        try:
            lease = await at.run(locks.acquire(resource, wait=0 if at._suspension % 2 else 5))
        except asyncio.CancelledError:
            lease = await others.acquire(resource, wait=0)
            assert at.has_struck
        else:
            assert not at.has_struck
        await lease.release()
        assert (await others.show(resource)).waiters == ()

    assert await cancelled_everywhere(scene) >= 1


async def test_leases_are_released_in_the_order_of_their_grants(
    locks: Locks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An order by address would make runs irreproducible."""
    shut_down: list[str] = []
    original = HeldLease.shut_down

    def recorded(lease: HeldLease) -> None:
        shut_down.append(lease.resource)
        original(lease)

    monkeypatch.setattr(HeldLease, "shut_down", recorded)
    names = [f"r{number}" for number in range(12)]
    for name in names:
        await locks.acquire(name, ttl=30)
    await locks.close()
    assert shut_down == names
