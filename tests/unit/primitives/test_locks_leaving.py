"""Giving up on a lock while the store does not answer: the wait ends in time, with the right error."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from holdfast.clock import VirtualClock
from holdfast.errors import NotRunning, WaitTimeout
from holdfast.primitives.locks import Lease, Locks
from holdfast.primitives.locks.base import CLOSE_SECONDS, LEAVE_SECONDS, LockRequest

WAIT_SECONDS = 0.2


class Silent:
    """A store that stopped answering; `stays` also ignores cancellation."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.answers = asyncio.Event()

    async def hangs(self, _: LockRequest) -> None:
        self.asked.set()
        await self.answers.wait()

    async def stays(self, _: LockRequest) -> None:
        self.asked.set()
        while not self.answers.is_set():
            try:
                await self.answers.wait()
            except asyncio.CancelledError:
                pass

    async def fails(self, _: LockRequest) -> None:
        self.asked.set()
        raise RuntimeError("the answer is malformed")


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
async def silent() -> AsyncIterator[Silent]:
    store = Silent()
    yield store
    store.answers.set()


@pytest.fixture
async def locks(clock: VirtualClock) -> Locks:
    locks = Locks.connect("memory://", clock=clock)
    await locks.acquire("r", ttl=900)
    return locks


async def run_loop(count: int = 50) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def let_pass(clock: VirtualClock, seconds: float) -> None:
    """Fires every timer that is due, in order."""
    until = clock.now() + seconds
    while (wake := clock.next_wake()) is not None and wake <= until:
        clock.set(wake)
        await run_loop()
    clock.set(until)
    await run_loop()


async def timed_out(locks: Locks, clock: VirtualClock, silent: Silent) -> asyncio.Task[Lease]:
    """A caller whose wait has timed out, while its claim is being withdrawn."""
    caller = asyncio.create_task(locks.acquire("r", wait=WAIT_SECONDS))
    await run_loop()
    await let_pass(clock, WAIT_SECONDS)
    await silent.asked.wait()
    await run_loop()
    return caller


async def test_a_wait_times_out_while_the_withdrawal_hangs(
    locks: Locks, clock: VirtualClock, silent: Silent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "_leave", silent.hangs)
    caller = await timed_out(locks, clock, silent)
    await let_pass(clock, LEAVE_SECONDS)
    await run_loop()
    assert caller.done()
    assert isinstance(caller.exception(), WaitTimeout)
    silent.answers.set()
    await locks.close()


async def test_closing_does_not_cancel_a_caller_that_has_timed_out(
    locks: Locks, clock: VirtualClock, silent: Silent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "_leave", silent.hangs)
    caller = await timed_out(locks, clock, silent)
    closing = asyncio.create_task(locks.close())
    await run_loop()
    await let_pass(clock, CLOSE_SECONDS)
    await closing
    await run_loop()
    assert caller.done()
    assert not caller.cancelled()
    assert isinstance(caller.exception(), WaitTimeout)


async def test_closing_ends_a_wait_with_not_running_while_the_withdrawal_hangs(
    locks: Locks, clock: VirtualClock, silent: Silent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "_leave", silent.hangs)
    caller = asyncio.create_task(locks.acquire("r", wait=60))
    await run_loop()
    closing = asyncio.create_task(locks.close())
    await run_loop()
    assert isinstance(caller.exception(), NotRunning)
    await let_pass(clock, CLOSE_SECONDS)
    await closing


async def test_closing_is_bounded_when_a_request_ignores_cancellation(
    locks: Locks, clock: VirtualClock, silent: Silent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "_leave", silent.stays)
    await timed_out(locks, clock, silent)
    closing = asyncio.create_task(locks.close())
    await run_loop()
    await let_pass(clock, CLOSE_SECONDS)
    await run_loop()
    await let_pass(clock, LEAVE_SECONDS)
    await run_loop()
    assert closing.done()
    await closing


async def test_a_failed_withdrawal_does_not_hide_the_timeout(
    locks: Locks, clock: VirtualClock, silent: Silent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "_leave", silent.fails)
    with pytest.raises(WaitTimeout):
        await (await timed_out(locks, clock, silent))
    await locks.close()


async def test_a_cancelled_caller_is_not_blocked_by_a_silent_store(
    locks: Locks, clock: VirtualClock, silent: Silent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "_leave", silent.hangs)
    caller = asyncio.create_task(locks.acquire("r", wait=60))
    await run_loop()
    caller.cancel()
    await silent.asked.wait()
    await let_pass(clock, LEAVE_SECONDS)
    await run_loop()
    assert caller.done()
    assert caller.cancelled()
    silent.answers.set()
    await locks.close()
