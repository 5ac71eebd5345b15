"""Grants and fences, several at once, grace. docs/howto/locks.md links here."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast.core.fleet.model import HOST_PREFIX, SLOT
from holdfast.errors import (
    BadConfig,
    InvalidInput,
    NotFound,
    StoreUnavailable,
    WaitTimeout,
)
from holdfast.primitives.locks import Lease, Locks
from tests.conformance.locks.support import LocksBench, backend_of, is_free


async def test_a_resource_has_one_holder_at_a_time(locks: Locks, others: Locks) -> None:
    async with locks.hold("r", ttl=30, wait=0) as lease:
        lease.check()
        await lease.verify()
        with pytest.raises(WaitTimeout, match="held by a"):
            await others.acquire("r", wait=0)
        async with others.hold("another", wait=0):
            pass
    async with others.hold("r", wait=0):
        pass


async def test_the_slot_of_a_host_is_no_lock_of_users(locks: Locks) -> None:
    with pytest.raises(InvalidInput, match="slot of a host"):
        await locks.acquire(f"{SLOT}{HOST_PREFIX}1", wait=0)
    async with locks.hold("host:web-1", wait=0):
        pass


async def test_fences_rise_with_every_grant_and_never_start_over(
    locks_bench: LocksBench, locks: Locks, others: Locks
) -> None:
    fences = []
    for process in (locks, others, locks):
        async with process.hold("r") as lease:
            fences.append(lease.fence)
    lease = await locks.acquire("r", ttl=30)
    fences.append(lease.fence)
    fences.append((await locks.revoke("r", by="test")).fence)
    await lease.release()
    late = await locks_bench.open("c")
    async with late.hold("r") as lease:
        fences.append(lease.fence)
    assert fences == [1, 2, 3, 4, 5, 6]


async def test_a_repeated_claim_gets_the_same_fence(locks: Locks, others: Locks) -> None:
    first = await locks.acquire("r", claim_id="my-claim")
    again = await others.acquire("r", claim_id="my-claim", wait=0)
    assert (first.fence, again.fence) == (1, 1)
    assert (await locks.show("r")).claim_id == "my-claim"


async def test_a_request_is_repeated_after_its_answer_was_lost(
    locks_bench: LocksBench, locks: Locks
) -> None:
    backend_of(locks).loses_answers = 2
    asking = asyncio.create_task(locks.acquire("r", wait=10))
    await locks_bench.advance(5)
    lease = await asking
    assert lease.fence == 1
    await lease.verify()


async def test_an_unreachable_store_is_an_error_after_the_wait(
    locks_bench: LocksBench, locks: Locks
) -> None:
    backend_of(locks).is_cut = True
    asking = asyncio.create_task(locks.acquire("r", wait=4))
    await locks_bench.advance(3.5)
    assert not asking.done()
    await locks_bench.advance(1)
    with pytest.raises(StoreUnavailable):
        await asking


async def test_a_store_that_never_answers_does_not_exceed_the_wait(
    locks_bench: LocksBench, locks: Locks
) -> None:
    gate = backend_of(locks).gate = asyncio.Event()
    asking = asyncio.create_task(locks.acquire("r", wait=7))
    for _ in range(20):
        await asyncio.sleep(0)
    locks_bench.clock.set(locks_bench.clock.now() + 7)
    with pytest.raises(StoreUnavailable, match="did not answer"):
        await asking
    gate.set()
    await locks_bench.settle()
    assert await is_free(locks)


async def test_a_bad_request_is_refused(locks: Locks) -> None:
    nan = float("nan")
    for resource, wrong in (
        *(("", {}), ("x" * 513, {}), ("a\0b", {})),
        *(("r", {"ttl": 0.0}), ("r", {"ttl": nan}), ("r", {"ttl": 1e6})),
        *(("r", {"wait": -1.0}), ("r", {"wait": nan}), ("r", {"grace": -1.0})),
    ):
        settings: dict[str, Any] = wrong
        with pytest.raises(InvalidInput):
            await locks.acquire(resource, **settings)


async def test_a_grace_delays_the_next_grant_after_a_loss_but_not_after_a_release(
    locks_bench: LocksBench, locks: Locks, others: Locks
) -> None:
    async with locks.hold("r", ttl=30, grace=15):
        pass
    lease = await others.acquire("r", ttl=30, grace=15, wait=0)
    assert lease._renewal_loop is not None
    lease._renewal_loop.cancel()
    waiting = asyncio.create_task(locks.acquire("r", ttl=30, grace=15, wait=100))
    await locks_bench.advance(44.9)
    assert not waiting.done()
    await locks_bench.advance(0.2)
    lease = await waiting
    await locks.revoke("r", by="ann")
    waiting = asyncio.create_task(others.acquire("r", wait=100))
    await locks_bench.advance(14.9)
    assert not waiting.done()
    await locks_bench.advance(0.2)
    assert (await waiting).fence == lease.fence + 2


async def test_hold_many_acquires_in_sorted_order_and_never_deadlocks(
    locks_bench: LocksBench, locks: Locks, others: Locks
) -> None:
    done: list[dict[str, int]] = []

    async def both(process: Locks, names: list[str]) -> None:
        for _ in range(3):
            async with process.hold_many(names, ttl=30, wait=100) as leases:
                done.append({name: lease.fence for name, lease in leases.items()})

    running = asyncio.gather(both(locks, ["a", "b"]), both(others, ["b", "a", "b"]))
    await locks_bench.advance(60)
    await running
    assert sorted(fences["a"] for fences in done) == [1, 2, 3, 4, 5, 6]
    assert all(fences["a"] == fences["b"] for fences in done)


async def test_hold_many_holds_all_or_none(locks: Locks, others: Locks) -> None:
    await locks.acquire("b", ttl=30)
    with pytest.raises(WaitTimeout):
        async with others.hold_many(["c", "a", "b"], wait=0):
            pytest.fail("b is taken")
    assert await is_free(locks, "a")
    with pytest.raises(NotFound):
        await locks.show("c")


async def test_redis_is_refused_because_it_has_no_fence() -> None:
    with pytest.raises(BadConfig, match="EfficiencyLocks"):
        Locks.connect("redis://localhost:6379/0")


async def test_many_claims_at_once_never_share_a_fence(
    locks_bench: LocksBench, locks: Locks, others: Locks
) -> None:
    held: list[Lease] = []
    fences: list[int] = []

    async def work(number: int) -> None:
        async with (locks, others)[number % 2].hold("r", ttl=30, wait=1000) as lease:
            held.append(lease)
            assert len(held) == 1
            fences.append(lease.fence)
            await asyncio.sleep(0)
            held.remove(lease)

    running = asyncio.gather(*(work(number) for number in range(12)))
    await locks_bench.advance(60)
    await running
    assert fences == list(range(1, 13))


async def test_a_repeated_claim_never_shortens_its_lease(
    locks_bench: LocksBench, locks: Locks, others: Locks
) -> None:
    first = await locks.acquire("r", ttl=60, claim_id="mine")
    again = await others.acquire("r", ttl=3, claim_id="mine", wait=0)
    assert again.fence == first.fence
    assert (await locks.show("r")).seconds_left == pytest.approx(60, abs=1)
    await locks_bench.advance(1.5)  # The second has renewed for its own 3 s.
    assert (await locks.show("r")).seconds_left > 50
    assert first.seconds_left > 50
