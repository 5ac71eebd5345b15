"""Giving up on a lock while the store is silent: the wait ends in time, with its own error."""

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
    """A store that does not answer any more; `stays` also ignores a cancellation."""

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
        raise RuntimeError("the answer makes no sense")


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
async def silent() -> AsyncIterator[Silent]:
    made = Silent()
    yield made
    made.answers.set()


@pytest.fixture
async def locks(clock: VirtualClock) -> Locks:
    made = Locks.connect("memory://", clock=clock)
    await made.acquire("r", ttl=900)
    return made


async def turns(count: int = 50) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def let_pass(clock: VirtualClock, seconds: float) -> None:
    """Every timer until then fires in its turn."""
    until = clock.now() + seconds
    while (wake := clock.next_wake()) is not None and wake <= until:
        clock.set(wake)
        await turns()
    clock.set(until)
    await turns()


async def timed_out(locks: Locks, clock: VirtualClock, silent: Silent) -> asyncio.Task[Lease]:
    """A caller whose wait has passed, while its place in line is being given back."""
    caller = asyncio.create_task(locks.acquire("r", wait=WAIT_SECONDS))
    await turns()
    await let_pass(clock, WAIT_SECONDS)
    await silent.asked.wait()
    await turns()
    return caller


async def test_a_wait_ends_although_the_store_does_not_take_the_place_back(
    locks: Locks, clock: VirtualClock, silent: Silent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "_leave", silent.hangs)
    caller = await timed_out(locks, clock, silent)
    await let_pass(clock, LEAVE_SECONDS)
    await turns()
    assert caller.done()
    assert isinstance(caller.exception(), WaitTimeout)
    silent.answers.set()
    await locks.close()


async def test_closing_cancels_no_caller_whose_wait_has_passed(
    locks: Locks, clock: VirtualClock, silent: Silent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "_leave", silent.hangs)
    caller = await timed_out(locks, clock, silent)
    closing = asyncio.create_task(locks.close())
    await turns()
    await let_pass(clock, CLOSE_SECONDS)
    await closing
    await turns()
    assert caller.done()
    assert not caller.cancelled()
    assert isinstance(caller.exception(), WaitTimeout)


async def test_closing_ends_a_wait_with_not_running_when_giving_back_hangs(
    locks: Locks, clock: VirtualClock, silent: Silent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "_leave", silent.hangs)
    caller = asyncio.create_task(locks.acquire("r", wait=60))
    await turns()
    closing = asyncio.create_task(locks.close())
    await turns()
    assert isinstance(caller.exception(), NotRunning)
    await let_pass(clock, CLOSE_SECONDS)
    await closing


async def test_closing_ends_although_a_request_ignores_its_cancellation(
    locks: Locks, clock: VirtualClock, silent: Silent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "_leave", silent.stays)
    await timed_out(locks, clock, silent)
    closing = asyncio.create_task(locks.close())
    await turns()
    await let_pass(clock, CLOSE_SECONDS)
    await turns()
    await let_pass(clock, LEAVE_SECONDS)
    await turns()
    assert closing.done()
    await closing


async def test_the_error_of_giving_back_does_not_hide_that_the_wait_has_passed(
    locks: Locks, clock: VirtualClock, silent: Silent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "_leave", silent.fails)
    with pytest.raises(WaitTimeout):
        await (await timed_out(locks, clock, silent))
    await locks.close()


async def test_a_cancelled_caller_goes_when_the_store_is_silent(
    locks: Locks, clock: VirtualClock, silent: Silent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "_leave", silent.hangs)
    caller = asyncio.create_task(locks.acquire("r", wait=60))
    await turns()
    caller.cancel()
    await silent.asked.wait()
    await let_pass(clock, LEAVE_SECONDS)
    await turns()
    assert caller.done()
    assert caller.cancelled()
    silent.answers.set()
    await locks.close()
