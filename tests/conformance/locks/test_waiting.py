"""Waiting for a lock: the queue, its order, its bound. docs/howto/locks.md links here."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.core import lease as rules
from holdfast.errors import (
    QueueFull,
    WaitTimeout,
)
from holdfast.primitives.locks import Locks
from tests.conformance.locks.support import LocksBench, backend_of, is_free


async def test_waiters_are_granted_in_order_of_arrival(
    locks_bench: LocksBench, locks: Locks, others: Locks
) -> None:
    served: list[int] = []

    async def wait(number: int) -> None:
        async with (locks, others)[number % 2].hold("r", wait=60):
            served.append(number)

    first = await locks.acquire("r", ttl=30)
    waiting = []
    for number in range(6):
        waiting.append(asyncio.create_task(wait(number)))
        await locks_bench.settle()
    assert [w.owner for w in (await locks.show("r")).waiters] == ["a", "b", "a", "b", "a", "b"]
    await first.release()
    await locks_bench.advance(10)
    await asyncio.gather(*waiting)
    assert served == list(range(6))


async def test_a_new_claim_does_not_overtake_waiters(
    locks_bench: LocksBench, locks: Locks, others: Locks
) -> None:
    first = await locks.acquire("r")
    waiting = asyncio.create_task(others.acquire("r", wait=60))
    await locks_bench.settle()
    await first.release()
    with pytest.raises(WaitTimeout):
        await locks.acquire("r", wait=0)
    await locks_bench.advance(2)
    assert (await waiting).fence == 2


async def test_only_the_first_waiter_is_woken(
    locks_bench: LocksBench, locks: Locks, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await locks.acquire("r")
    waiting = []
    for _ in range(3):
        waiting.append(asyncio.create_task(locks.acquire("r", wait=60)))
        await locks_bench.settle()
    woken: list[str] = []
    wake = locks._wake

    def spy(claim_id: str | None) -> None:
        woken.append(claim_id or "")
        wake(claim_id)

    monkeypatch.setattr(locks, "_wake", spy)
    head = (await locks.show("r")).waiters[0].claim_id
    await first.release()
    await locks_bench.settle()
    assert woken == [head]
    assert [task.done() for task in waiting] == [True, False, False]
    for task in waiting[1:]:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


async def test_dead_waiters_delay_the_queue_by_one_waiter_timeout_in_total(
    locks_bench: LocksBench, locks: Locks
) -> None:
    first = await locks.acquire("r", ttl=30)
    for number in range(5):
        await locks_bench.dead_waiter("r", f"dead-{number}", waiter_seconds=3.0)
    waiting = asyncio.create_task(locks.acquire("r", wait=60))
    await locks_bench.settle()
    await first.release()
    await locks_bench.advance(2.9)
    assert not waiting.done()
    await locks_bench.advance(0.2)
    assert (await waiting).fence == 2


async def test_a_wait_times_out(locks_bench: LocksBench, locks: Locks) -> None:
    await locks.acquire("r", ttl=30)
    waiting = asyncio.create_task(locks.acquire("r", wait=10))
    await locks_bench.advance(9.9)
    assert not waiting.done()
    await locks_bench.advance(0.2)
    with pytest.raises(WaitTimeout):
        await waiting
    assert (await locks.show("r")).waiters == ()


async def test_a_cancelled_waiter_leaves_the_queue(
    locks_bench: LocksBench, locks: Locks, others: Locks
) -> None:
    first = await locks.acquire("r")
    gone = asyncio.create_task(locks.acquire("r", wait=60))
    await locks_bench.settle()
    stays = asyncio.create_task(others.acquire("r", wait=60))
    await locks_bench.settle()
    gone.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gone
    assert [waiter.owner for waiter in (await locks.show("r")).waiters] == ["b"]
    await first.release()
    await locks_bench.advance(2)
    assert (await stays).fence == 2


async def test_a_waiter_cancelled_during_its_grant_does_not_hold(
    locks_bench: LocksBench, locks: Locks, others: Locks
) -> None:
    gate = backend_of(locks).gate = asyncio.Event()
    asking = asyncio.create_task(locks.acquire("r", wait=60))
    await backend_of(locks).answering.wait()  # granted in the store, the answer is on its way
    asking.cancel()
    await asyncio.sleep(0)
    gate.set()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await locks_bench.settle()
    assert await is_free(others)
    assert (await others.acquire("r", wait=0)).fence == 2


async def test_waiters_per_lock_are_bounded(
    locks_bench: LocksBench, locks: Locks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rules, "WAITERS_MAX", 2)
    await locks.acquire("r")
    for number in range(2):
        await locks_bench.dead_waiter("r", f"w-{number}", waiter_seconds=3.0)
    with pytest.raises(QueueFull):
        await locks.acquire("r", wait=5)


async def test_dead_waiters_do_not_count_against_the_bound(
    locks_bench: LocksBench, locks: Locks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rules, "WAITERS_MAX", 5)
    first = await locks.acquire("r", ttl=60)
    for number in range(5):
        await locks_bench.dead_waiter("r", f"dead-{number}", waiter_seconds=3.0)
    with pytest.raises(QueueFull):
        await locks.acquire("r", wait=60)
    await locks_bench.advance(3.1)
    waiting = asyncio.create_task(locks.acquire("r", wait=60))
    await locks_bench.settle()
    assert len((await locks.show("r")).waiters) == 1
    await first.release()
    await locks_bench.advance(2)
    assert (await waiting).fence == 2
