"""Holding a lease: what cancels what, and what a holder sees when its event loop or machine stood still."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from holdfast.clock import VirtualClock
from holdfast.core import lease as rules
from holdfast.errors import LeaseLost
from holdfast.primitives.locks import FAMILIES, Lease, Locks, LossReason
from holdfast.primitives.metrics import Metrics


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def metrics() -> Metrics:
    return Metrics(FAMILIES)


@pytest.fixture
async def locks(clock: VirtualClock, metrics: Metrics) -> AsyncIterator[Locks]:
    async with Locks.connect("memory://", clock=clock, meter=metrics) as made:
        yield made


async def turns(count: int = 20) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


class Body:
    """A task that holds a lock and does something with it."""

    def __init__(
        self, locks: Locks, work: Callable[[Lease], object], *, cancel: bool = True
    ) -> None:
        self.lease: Lease | None = None
        self.after: list[str] = []
        self.task = asyncio.create_task(self._run(locks, work, cancel=cancel))

    async def _run(self, locks: Locks, work: Callable[[Lease], object], *, cancel: bool) -> None:
        try:
            async with locks.hold("r", ttl=30, cancel_on_loss=cancel) as lease:
                self.lease = lease
                found = work(lease)
                if asyncio.iscoroutine(found):
                    await found
        finally:
            # Whatever happened, this task can go on: no cancellation is left over.
            await asyncio.sleep(0)
            self.after.append("went on")

    async def lose(self) -> None:
        await turns()
        assert self.lease is not None
        self.lease.lose(LossReason.REVOKED)


async def forever(_: Lease) -> None:
    await asyncio.Event().wait()


async def test_a_cancellation_from_elsewhere_stays_one(locks: Locks) -> None:
    body = Body(locks, forever)
    await turns()
    body.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await body.task
    assert not (await locks.show("r")).is_held


async def test_a_loss_becomes_an_error_and_the_task_can_go_on(locks: Locks) -> None:
    body = Body(locks, forever)
    await body.lose()
    with pytest.raises(LeaseLost):
        await body.task
    assert body.after == ["went on"]
    assert body.task.cancelling() == 0


async def test_a_loss_and_a_cancellation_together_are_a_cancellation(locks: Locks) -> None:
    body = Body(locks, forever)
    await body.lose()
    body.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await body.task


async def test_a_body_that_swallows_the_cancellation_still_hears_of_the_loss(locks: Locks) -> None:
    async def stubborn(lease: Lease) -> None:
        try:
            await forever(lease)
        except asyncio.CancelledError:
            return

    body = Body(locks, stubborn)
    await body.lose()
    with pytest.raises(LeaseLost):
        await body.task
    assert body.after == ["went on"]


async def test_a_loss_in_the_last_moment_of_the_body_leaves_no_cancellation_behind(
    locks: Locks,
) -> None:
    body = Body(locks, lambda lease: lease.lose(LossReason.REVOKED))
    with pytest.raises(LeaseLost):
        await body.task
    assert body.after == ["went on"]
    assert body.task.cancelling() == 0


async def test_a_body_may_ask_not_to_be_cancelled(locks: Locks) -> None:
    done: list[str] = []

    async def careful(lease: Lease) -> None:
        await lease.lost.wait()
        await turns()
        done.append(str(lease.lost.reason))

    body = Body(locks, careful, cancel=False)
    await body.lose()
    with pytest.raises(LeaseLost):
        await body.task
    assert done == ["revoked"]


async def test_several_that_are_lost_together_are_one_error(locks: Locks) -> None:
    async def run() -> None:
        async with locks.hold_many(["a", "b"]) as leases:
            for lease in leases.values():
                lease.lose(LossReason.REVOKED)
            await asyncio.Event().wait()

    task = asyncio.create_task(run())
    with pytest.raises(LeaseLost):
        await task
    assert task.cancelling() == 0


async def test_check_sees_a_pause_before_anybody_else_does(
    locks: Locks, clock: VirtualClock, metrics: Metrics
) -> None:
    """The process was stopped and goes on: the next line of the body runs before the keeper does."""
    lease = await locks.acquire("r", ttl=30)
    clock._time += 29.7  # nobody is woken
    assert lease.seconds_left == 0.0
    with pytest.raises(LeaseLost, match="expired"):
        lease.check()
    assert metrics.value("holdfast_lock_lost_total", reason="expired") == 1


async def test_a_holder_lets_go_before_the_store_does(locks: Locks, clock: VirtualClock) -> None:
    lease = await locks.acquire("r", ttl=30)
    assert lease.seconds_left == pytest.approx(30 - 30 * 0.01 - 0.002)


async def test_what_happened_is_counted(
    locks: Locks, clock: VirtualClock, metrics: Metrics
) -> None:
    async with locks.hold("r", ttl=30):
        clock.set(clock.now() + 5)
        await turns()
    body = Body(locks, forever)
    await turns()
    waiting = asyncio.create_task(locks.acquire("r", wait=10))
    await turns()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    body.task.cancel()
    await asyncio.gather(body.task, return_exceptions=True)
    text = metrics.render()
    assert 'holdfast_lock_acquire_total{outcome="granted"} 2' in text
    assert 'holdfast_lock_acquire_total{outcome="cancelled"} 1' in text
    assert "holdfast_lock_hold_seconds_sum 5" in text
    assert metrics.value("holdfast_lock_wait_seconds") == 2


def test_renewals_are_spread_by_a_stable_hash() -> None:
    delays = {rules.renew_in(30, f"claim-{n}", 1) for n in range(50)}
    assert len(delays) == 50
    assert all(9 <= delay <= 10 for delay in delays)
    assert rules.renew_in(30, "claim", 1) == rules.renew_in(30, "claim", 1)
