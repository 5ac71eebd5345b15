"""Operators: listing, revocation, hints. docs/howto/locks.md links here."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.errors import (
    LeaseLost,
    NotFound,
)
from holdfast.primitives.locks import Locks, LossReason
from tests.conformance.locks.support import LocksBench


async def test_a_revocation_raises_the_fence_is_recorded_and_notifies_the_holder(
    locks_bench: LocksBench, locks: Locks
) -> None:
    lease = await locks.acquire("r", ttl=30)
    audit = await locks.revoke("r", by="ann", reason="stuck")
    await locks_bench.settle()
    assert lease.lost.reason is LossReason.REVOKED
    with pytest.raises(LeaseLost):
        await lease.verify()
    shown = await locks.show("r")
    assert (shown.fence, shown.is_held) == (2, False)
    assert shown.audit == (audit,)
    assert (audit.actor, audit.reason, audit.owner, audit.fence) == ("ann", "stuck", "a", 2)
    assert locks_bench.metrics.value("holdfast_lock_lost_total", reason="revoked") == 1


async def test_a_revocation_by_another_process_is_noticed_at_the_next_renewal(
    locks_bench: LocksBench, locks: Locks, others: Locks
) -> None:
    lease = await locks.acquire("r", ttl=30)
    await others.revoke("r", by="ann")
    await locks_bench.advance(10)
    assert lease.lost.reason is LossReason.REVOKED


async def test_a_hint_makes_the_holder_check_the_store_at_once(
    locks_bench: LocksBench, locks: Locks, others: Locks
) -> None:
    lease = await locks.acquire("r", ttl=30)
    await others.revoke("r", by="ann")
    locks._hinted("work")
    await locks_bench.settle()
    assert lease.lost.reason is LossReason.REVOKED


async def test_a_hint_makes_the_first_waiter_ask_at_once(
    locks_bench: LocksBench, locks: Locks, others: Locks
) -> None:
    first = await locks.acquire("r", ttl=30)
    waiting = []
    for _ in range(2):  # One by one: the queue is in the order of their transactions.
        waiting.append(asyncio.create_task(others.acquire("r", wait=60)))
        await locks_bench.settle()
    await first.release()
    await locks_bench.settle()
    assert not waiting[0].done()
    others._hinted("work")
    await locks_bench.settle()
    assert [task.done() for task in waiting] == [True, False]
    waiting[1].cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


async def test_revoking_a_free_resource_is_not_found(locks: Locks) -> None:
    with pytest.raises(NotFound):
        await locks.revoke("r", by="ann")
    with pytest.raises(NotFound):
        await locks.show("never held")


async def test_held_resources_are_listed_with_their_waiters(
    locks_bench: LocksBench, locks: Locks, others: Locks
) -> None:
    for name in ("b", "c", "a"):
        await locks.acquire(name, ttl=30)
    await locks_bench.advance(5)
    waiting = asyncio.create_task(others.acquire("a", wait=60))
    await locks_bench.advance(2)
    assert [(info.resource, info.owner) for info in await locks.list(limit=2)] == [
        ("a", "a"),
        ("b", "a"),
    ]
    assert [info.resource for info in await locks.list(after="b")] == ["c"]
    shown = await others.show("a")
    assert (shown.is_held, round(shown.held_seconds)) == (True, 7)
    assert [(w.owner, round(w.waited_seconds)) for w in shown.waiters] == [("b", 2)]
    stats = await locks.measure()
    assert (stats.depth, round(stats.oldest_seconds)) == (1, 2)
    assert locks_bench.metrics.value("holdfast_lock_queue_depth") == 1
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
