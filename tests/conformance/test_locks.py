"""What a lock promises, over every backend that has a fence. docs/howto/locks.md links here."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.clock import VirtualClock
from holdfast.core import lease as rules
from holdfast.errors import (
    BadConfig,
    InvalidInput,
    LeaseLost,
    NotFound,
    NotRunning,
    QueueFull,
    StoreUnavailable,
    WaitTimeout,
)
from holdfast.primitives.locks import Lease, Locks, LossReason
from holdfast.primitives.locks.backend import StoreBackend
from holdfast.store.scripts import leases as scripts
from tests.conformance.conftest import make_bench
from tests.conformance.locks_support import LocksBench, line_of


@pytest.fixture(params=["memory", "sqlite-memory", "sqlite-file", "postgres"])
def any_locks_bench(
    request: pytest.FixtureRequest, clock: VirtualClock, tmp_path: Path
) -> LocksBench:
    if request.param == "memory":
        return LocksBench(clock, None)
    return LocksBench(clock, make_bench(request, clock, tmp_path))


@pytest.fixture
async def locks_bench(any_locks_bench: LocksBench) -> AsyncIterator[LocksBench]:
    yield any_locks_bench
    await any_locks_bench.close()


@pytest.fixture
async def locks(locks_bench: LocksBench) -> Locks:
    return await locks_bench.open("a")


@pytest.fixture
async def others(locks_bench: LocksBench, locks: Locks) -> Locks:
    """The locks of another process."""
    return await locks_bench.open("b")


async def is_free(locks: Locks, resource: str = "r") -> bool:
    return not (await locks.show(resource)).is_held


# -- grants and fences ---------------------------------------------------------------------------------


async def test_a_lease_is_for_one_at_a_time(locks: Locks, others: Locks) -> None:
    async with locks.hold("r", ttl=30, wait=0) as lease:
        lease.check()
        await lease.verify()
        with pytest.raises(WaitTimeout, match="held by a"):
            await others.acquire("r", wait=0)
        async with others.hold("another", wait=0):
            pass
    async with others.hold("r", wait=0):
        pass


async def test_fences_rise_with_every_grant_and_never_start_over(
    locks_bench: LocksBench, locks: Locks, others: Locks
) -> None:
    fences = []
    for each in (locks, others, locks):
        async with each.hold("r") as lease:
            fences.append(lease.fence)
    lease = await locks.acquire("r", ttl=30)
    fences.append(lease.fence)
    fences.append((await locks.revoke("r", by="test")).fence)
    await lease.release()
    late = await locks_bench.open("c")
    async with late.hold("r") as lease:
        fences.append(lease.fence)
    assert fences == [1, 2, 3, 4, 5, 6]


async def test_a_claim_that_asks_again_gets_the_same_fence(locks: Locks, others: Locks) -> None:
    first = await locks.acquire("r", claim_id="my-claim")
    again = await others.acquire("r", claim_id="my-claim", wait=0)
    assert (first.fence, again.fence) == (1, 1)
    assert (await locks.show("r")).claim_id == "my-claim"


async def test_an_answer_that_was_lost_is_asked_for_again(
    locks_bench: LocksBench, locks: Locks
) -> None:
    line_of(locks).loses_answers = 2
    asking = asyncio.create_task(locks.acquire("r", wait=10))
    await locks_bench.advance(5)
    lease = await asking
    assert lease.fence == 1
    await lease.verify()


async def test_a_store_that_cannot_be_reached_is_an_error_after_the_wait(
    locks_bench: LocksBench, locks: Locks
) -> None:
    line_of(locks).is_cut = True
    asking = asyncio.create_task(locks.acquire("r", wait=4))
    await locks_bench.advance(3.5)
    assert not asking.done()
    await locks_bench.advance(1)
    with pytest.raises(StoreUnavailable):
        await asking


async def test_a_store_that_never_answers_is_not_waited_for_longer_than_asked(
    locks_bench: LocksBench, locks: Locks
) -> None:
    gate = line_of(locks).gate = asyncio.Event()
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


# -- waiting -------------------------------------------------------------------------------------------


async def test_waiters_are_served_in_the_order_they_came(
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


async def test_nobody_overtakes_those_who_wait(
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


async def test_only_the_head_of_the_line_is_woken(
    locks_bench: LocksBench, locks: Locks, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await locks.acquire("r")
    waiting = [asyncio.create_task(locks.acquire("r", wait=60)) for _ in range(3)]
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


async def test_dead_waiters_cost_one_heartbeat_in_total(
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


async def test_waiting_ends_when_it_was_to(locks_bench: LocksBench, locks: Locks) -> None:
    await locks.acquire("r", ttl=30)
    waiting = asyncio.create_task(locks.acquire("r", wait=10))
    await locks_bench.advance(9.9)
    assert not waiting.done()
    await locks_bench.advance(0.2)
    with pytest.raises(WaitTimeout):
        await waiting
    assert (await locks.show("r")).waiters == ()


async def test_a_cancelled_waiter_leaves_the_line(
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


async def test_a_waiter_that_is_cancelled_while_it_is_granted_does_not_hold(
    locks_bench: LocksBench, locks: Locks, others: Locks
) -> None:
    gate = line_of(locks).gate = asyncio.Event()
    asking = asyncio.create_task(locks.acquire("r", wait=60))
    await line_of(locks).answering.wait()  # granted in the store, the answer is on its way
    asking.cancel()
    await asyncio.sleep(0)
    gate.set()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await locks_bench.settle()
    assert await is_free(others)
    assert (await others.acquire("r", wait=0)).fence == 2


async def test_a_line_has_an_end(
    locks_bench: LocksBench, locks: Locks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rules, "WAITERS_MAX", 2)
    await locks.acquire("r")
    for number in range(2):
        await locks_bench.dead_waiter("r", f"w-{number}", waiter_seconds=3.0)
    with pytest.raises(QueueFull):
        await locks.acquire("r", wait=5)


# -- renewal and loss ----------------------------------------------------------------------------------


async def test_a_lease_that_is_held_is_renewed(
    locks_bench: LocksBench, locks: Locks, others: Locks
) -> None:
    lease = await locks.acquire("r", ttl=30)
    for _ in range(10):
        await locks_bench.advance(29)
        lease.check()
        with pytest.raises(WaitTimeout):
            await others.acquire("r", wait=0)
    assert locks_bench.metrics.value("holdfast_lock_renew_seconds") >= 29


async def test_a_holder_that_dies_is_followed_after_its_ttl(
    locks_bench: LocksBench, locks: Locks, others: Locks
) -> None:
    lease = await locks.acquire("r", ttl=30)
    assert lease._watch is not None
    lease._watch.cancel()
    waiting = asyncio.create_task(others.acquire("r", wait=60))
    await locks_bench.advance(29.9)
    assert not waiting.done()
    await locks_bench.advance(0.2)
    assert (await waiting).fence == 2


async def test_a_renewal_never_acquires(locks_bench: LocksBench, locks: Locks) -> None:
    lease = await locks.acquire("r", ttl=30)
    assert lease._watch is not None
    lease._watch.cancel()
    locks_bench.clock.set(locks_bench.clock.now() + 31)
    assert await lease._grip.renew() is LossReason.EXPIRED
    assert await is_free(locks)


async def test_loss_is_told_before_anybody_else_is_granted(
    locks_bench: LocksBench, locks: Locks, others: Locks
) -> None:
    clock = locks_bench.clock
    lease = await locks.acquire("r", ttl=30)
    told: list[float] = []
    lease.when_lost(lambda: told.append(clock.now()))
    granted: list[float] = []

    async def follow() -> None:
        async with others.hold("r", ttl=30, wait=100):
            granted.append(clock.now())

    following = asyncio.create_task(follow())
    await locks_bench.settle()
    line_of(locks).is_cut = True
    await locks_bench.advance(60)
    await following
    assert lease.lost.reason is LossReason.STORE_UNREACHABLE
    assert told[0] < granted[0]
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
    line_of(locks).is_cut = True
    await locks_bench.advance(31)
    with pytest.raises(LeaseLost, match="store_unreachable"):
        await running
    assert ended == ["store_unreachable"]
    assert not running.cancelled()


async def test_one_missed_renewal_is_not_a_loss(locks_bench: LocksBench, locks: Locks) -> None:
    lease = await locks.acquire("r", ttl=30)
    line_of(locks).is_cut = True
    await locks_bench.advance(19)
    line_of(locks).is_cut = False
    await locks_bench.advance(60)
    lease.check()
    assert locks_bench.metrics.value("holdfast_lock_renew_failures_total") > 0


async def test_another_holder_is_told_as_fenced(
    locks_bench: LocksBench, locks: Locks, others: Locks
) -> None:
    lease = await locks.acquire("r", ttl=30)
    assert lease._watch is not None
    lease._watch.cancel()
    await locks_bench.advance(31)
    await others.acquire("r", wait=0)
    assert await lease._grip.renew() is LossReason.FENCED
    with pytest.raises(LeaseLost):
        await lease.verify()
    assert locks_bench.metrics.value("holdfast_lock_fencing_rejections_total") == 1


async def test_closing_tells_the_holders_and_gives_everything_back(
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


# -- giving back ---------------------------------------------------------------------------------------


async def test_a_release_is_idempotent_and_takes_nothing_from_the_next(
    locks: Locks, others: Locks
) -> None:
    lease = await locks.acquire("r")
    await lease.release()
    await lease.release()
    following = await others.acquire("r", wait=0)
    await lease._grip.give_back()
    await following.verify()


async def test_a_release_that_finds_the_lease_gone_is_a_loss(
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
            line_of(locks).is_cut = cut
            if not cut:
                await others.revoke("r", by="ann")
            raise ValueError("mine")

    for cut in (False, True):
        with pytest.raises(ValueError, match="mine"):
            await fail(cut=cut)


# -- operators -----------------------------------------------------------------------------------------


async def test_a_revocation_bumps_the_fence_is_kept_and_tells_the_holder(
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


async def test_a_revocation_elsewhere_is_noticed_with_the_next_renewal(
    locks_bench: LocksBench, locks: Locks, others: Locks
) -> None:
    lease = await locks.acquire("r", ttl=30)
    await others.revoke("r", by="ann")
    await locks_bench.advance(10)
    assert lease.lost.reason is LossReason.REVOKED


async def test_a_hint_makes_the_holder_look_at_once(
    locks_bench: LocksBench, locks: Locks, others: Locks
) -> None:
    lease = await locks.acquire("r", ttl=30)
    await others.revoke("r", by="ann")
    locks._hinted("work")
    await locks_bench.settle()
    assert lease.lost.reason is LossReason.REVOKED


async def test_a_hint_makes_the_head_of_the_line_ask_at_once(
    locks_bench: LocksBench, locks: Locks, others: Locks
) -> None:
    first = await locks.acquire("r", ttl=30)
    waiting = [asyncio.create_task(others.acquire("r", wait=60)) for _ in range(2)]
    await locks_bench.settle()
    await first.release()
    await locks_bench.settle()
    assert not waiting[0].done()
    others._hinted("work")
    await locks_bench.settle()
    assert [task.done() for task in waiting] == [True, False]
    waiting[1].cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


async def test_revoking_what_nobody_holds_is_said_so(locks: Locks) -> None:
    with pytest.raises(NotFound):
        await locks.revoke("r", by="ann")
    with pytest.raises(NotFound):
        await locks.show("never heard of")


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


# -- grace ---------------------------------------------------------------------------------------------


async def test_a_grace_keeps_the_next_one_out_after_a_loss_but_not_after_a_release(
    locks_bench: LocksBench, locks: Locks, others: Locks
) -> None:
    async with locks.hold("r", ttl=30, grace=15):
        pass
    lease = await others.acquire("r", ttl=30, grace=15, wait=0)
    assert lease._watch is not None
    lease._watch.cancel()
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


# -- several at once -----------------------------------------------------------------------------------


async def test_several_are_taken_in_sorted_order_so_that_nobody_deadlocks(
    locks_bench: LocksBench, locks: Locks, others: Locks
) -> None:
    done: list[dict[str, int]] = []

    async def both(each: Locks, names: list[str]) -> None:
        for _ in range(3):
            async with each.hold_many(names, ttl=30, wait=100) as leases:
                done.append({name: lease.fence for name, lease in leases.items()})

    running = asyncio.gather(both(locks, ["a", "b"]), both(others, ["b", "a", "b"]))
    await locks_bench.advance(60)
    await running
    assert sorted(each["a"] for each in done) == [1, 2, 3, 4, 5, 6]
    assert all(each["a"] == each["b"] for each in done)


async def test_several_are_all_held_or_none(locks: Locks, others: Locks) -> None:
    await locks.acquire("b", ttl=30)
    with pytest.raises(WaitTimeout):
        async with others.hold_many(["c", "a", "b"], wait=0):
            pytest.fail("b is taken")
    assert await is_free(locks, "a")
    with pytest.raises(NotFound):
        await locks.show("c")


# -- clocks --------------------------------------------------------------------------------------------


async def test_a_clock_that_is_set_back_only_lengthens_a_lease(
    locks_bench: LocksBench, locks: Locks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also for one who starts after the step, and one who was there before it."""
    backend = await locks_bench.backend()
    readings = {"back": 0.0}
    real = backend.reading

    def reading() -> float:
        return real() - readings["back"]

    monkeypatch.setattr(backend, "reading", reading)
    if isinstance(backend, StoreBackend):
        monkeypatch.setattr(backend._store, "reading", reading)
    wanted = rules.Ask("r", "first", "a", 30.0)
    await backend.run(lambda _, now: scripts.ask(wanted, now))
    await backend.run(lambda hinter, now: scripts.leave(hinter, "r", "first", now))
    readings["back"] = 500.0
    wanted = rules.Ask("r", "second", "b", 30.0)
    assert isinstance(await backend.run(lambda _, now: scripts.ask(wanted, now)), rules.Granted)
    readings["back"] = 0.0  # what a process that lived before the step may still believe
    locks_bench.clock.set(locks_bench.clock.now() + 29)
    third = rules.Ask("r", "third", "c", 30.0)
    assert isinstance(await backend.run(lambda _, now: scripts.ask(third, now)), rules.Held)


async def test_a_clock_set_forward_ends_a_lease_early_and_the_fence_refuses_it(
    locks_bench: LocksBench, locks: Locks, others: Locks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What no wall clock can promise: the holder counts seconds, the store was told that they passed."""
    lease = await locks.acquire("r", ttl=30)
    real = line_of(others).backend.reading

    def reading() -> float:
        return real() + 3600

    backend = line_of(others).backend
    monkeypatch.setattr(backend, "reading", reading)
    if isinstance(backend, StoreBackend):
        monkeypatch.setattr(backend._store, "reading", reading)
    assert (await others.acquire("r", wait=0)).fence == 2
    lease.check()
    with pytest.raises(LeaseLost):
        await lease.verify()


# -- other places --------------------------------------------------------------------------------------


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
