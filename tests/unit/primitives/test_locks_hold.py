"""The `hold` context manager: cancellation on loss, and pauses of the event loop or the machine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from holdfast.clock import VirtualClock
from holdfast.core import lease as rules
from holdfast.errors import LeaseLost
from holdfast.metrics import Metrics
from holdfast.primitives.locks import FAMILIES, Lease, Locks, LossReason


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def metrics() -> Metrics:
    return Metrics(FAMILIES)


@pytest.fixture
async def locks(clock: VirtualClock, metrics: Metrics) -> AsyncIterator[Locks]:
    async with Locks.connect("memory://", clock=clock, meter=metrics) as locks:
        yield locks


async def run_loop(count: int = 20) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


class Body:
    """A task that runs `work` under a lock."""

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
                result = work(lease)
                if asyncio.iscoroutine(result):
                    await result
        finally:
            # In every case no cancellation is pending, so the task can continue.
            await asyncio.sleep(0)
            self.after.append("went on")

    async def lose(self) -> None:
        await run_loop()
        assert self.lease is not None
        self.lease.lose(LossReason.REVOKED)


async def forever(_: Lease) -> None:
    await asyncio.Event().wait()


async def test_a_cancellation_from_elsewhere_stays_a_cancellation(locks: Locks) -> None:
    body = Body(locks, forever)
    await run_loop()
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


async def test_a_loss_is_raised_even_if_the_body_swallows_the_cancellation(locks: Locks) -> None:
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


async def test_a_loss_at_the_end_of_the_body_leaves_no_cancellation_pending(
    locks: Locks,
) -> None:
    body = Body(locks, lambda lease: lease.lose(LossReason.REVOKED))
    with pytest.raises(LeaseLost):
        await body.task
    assert body.after == ["went on"]
    assert body.task.cancelling() == 0


async def test_a_body_is_not_cancelled_with_cancel_on_loss_off(locks: Locks) -> None:
    done: list[str] = []

    async def careful(lease: Lease) -> None:
        await lease.lost.wait()
        await run_loop()
        done.append(str(lease.lost.reason))

    body = Body(locks, careful, cancel=False)
    await body.lose()
    with pytest.raises(LeaseLost):
        await body.task
    assert done == ["revoked"]


async def test_several_leases_lost_together_raise_one_error(locks: Locks) -> None:
    async def run() -> None:
        async with locks.hold_many(["a", "b"]) as leases:
            for lease in leases.values():
                lease.lose(LossReason.REVOKED)
            await asyncio.Event().wait()

    task = asyncio.create_task(run())
    with pytest.raises(LeaseLost):
        await task
    assert task.cancelling() == 0


async def test_check_notices_a_pause_before_the_renewal_loop_does(
    locks: Locks, clock: VirtualClock, metrics: Metrics
) -> None:
    """The process was stopped; after it resumes, the body runs before the renewal loop."""
    lease = await locks.acquire("r", ttl=30)
    clock._time += 29.7  # without firing timers
    assert lease.seconds_left == 0.0
    with pytest.raises(LeaseLost, match="expired"):
        lease.check()
    assert metrics.value("holdfast_lock_lost_total", reason="expired") == 1


async def test_a_holder_stops_relying_on_its_lease_before_the_store_ends_it(
    locks: Locks, clock: VirtualClock
) -> None:
    lease = await locks.acquire("r", ttl=30)
    assert lease.seconds_left == pytest.approx(30 - 30 * 0.01 - 0.002)


async def test_what_happened_is_counted(
    locks: Locks, clock: VirtualClock, metrics: Metrics
) -> None:
    async with locks.hold("r", ttl=30):
        clock.set(clock.now() + 5)
        await run_loop()
    body = Body(locks, forever)
    await run_loop()
    waiting = asyncio.create_task(locks.acquire("r", wait=10))
    await run_loop()
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
