"""A caller cancelled at any await leaves its key free or answered."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.clock import VirtualClock
from holdfast.errors import NotRunning
from holdfast.primitives.idempotency import Answered, EntryLease, Ledger, OnError, State
from holdfast.store.sqlite.driver import SqliteDriver
from tests.acceptance.apps.harness import eventually
from tests.cancelling import CancelAt, cancelled_everywhere
from tests.conformance.ledger.support import Effect, Many, started


class Acting:
    """An effect that suspends before and after it acts; `acted` counts the external effects."""

    def __init__(self) -> None:
        self.acted = 0
        self.ended = 0

    async def __call__(self, lease: EntryLease) -> str:
        await asyncio.sleep(0)
        self.acted += 1
        await asyncio.sleep(0)
        self.ended += 1
        return "paid"


def always_suspends(ledger: Ledger) -> None:
    """Makes SQLite suspend on every write; on a fast disk it would not, and nothing could be cancelled."""
    driver = ledger.calls.loops.store._driver
    if isinstance(driver, SqliteDriver):
        driver._commit_seconds = 1e9


async def quiet(ledger: Ledger) -> None:
    """Waits for the writes that continue after their caller has ended."""
    while tasks := ledger.calls.loops.current.writes.tasks:
        await asyncio.wait(tasks)


@pytest.mark.parametrize("times", [1, 2])
async def test_a_call_cancelled_at_any_await_leaves_its_key_free_or_answered(
    ledger: Ledger, other: Ledger, times: int
) -> None:
    async def scene(at: CancelAt) -> None:
        place = ("s", "o", f"key-{at._suspension}")
        acting = Acting()
        always_suspends(ledger)
        try:
            await at.run(ledger.run(*place, 1, acting))
            assert not at.has_struck, "the cancellation was swallowed"
        except asyncio.CancelledError:
            if times > 1:
                await quiet(ledger)
        entry = await other.get(*place)
        state = None if entry is None else entry.state
        if acting.ended:
            assert state is State.DONE, "the effect ran but was not recorded"
        else:
            assert state in (None, State.ABANDONED), "no effect ran, and the key is free"
        again = Acting()
        assert await other.run(*place, 1, again) == "paid"
        assert acting.ended + again.ended == 1

    assert await cancelled_everywhere(scene, times=times) >= 2


async def test_begin_and_finish_cancelled_at_any_await_leave_the_key_free_or_answered(
    ledger: Ledger, other: Ledger
) -> None:
    async def begin(at: CancelAt) -> None:
        place = ("s", "begin", f"key-{at._suspension}")
        always_suspends(ledger)
        try:
            await at.run(ledger.begin(*place, 1))
            assert not at.has_struck
        except asyncio.CancelledError:
            assert isinstance(await other.begin(*place, 1), EntryLease), "the key is free"

    async def finish(at: CancelAt) -> None:
        place = ("s", "finish", f"key-{at._suspension}")
        always_suspends(ledger)
        lease = await ledger.begin(*place, 1)
        assert isinstance(lease, EntryLease)
        try:
            await at.run(ledger.finish(lease, "paid"))
        except asyncio.CancelledError:
            assert at.has_struck
        assert isinstance(await other.begin(*place, 1), Answered)

    await cancelled_everywhere(begin)
    await cancelled_everywhere(finish)


async def test_a_timeout_around_a_call_raises_timeout_error(ledger: Ledger) -> None:
    gate = asyncio.Event()
    always_suspends(ledger)

    async def effect(lease: EntryLease) -> None:
        await gate.wait()

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await ledger.run("s", "o", "k", 1, effect)
    assert await ledger.run("s", "o", "k", 1, Effect()) == "paid"


async def test_an_error_in_on_error_leaves_the_key_free(ledger: Ledger, other: Ledger) -> None:
    def policy(error: Exception) -> OnError:
        raise LookupError("no policy for this error")

    with pytest.raises(LookupError) as raised:
        await ledger.run("s", "o", "k", 1, Effect(error=ValueError("bad")), on_error=policy)
    assert isinstance(raised.value.__cause__, ValueError)
    assert await other.run("s", "o", "k", 1, Effect()) == "paid"


async def test_an_error_that_cannot_be_formatted_leaves_the_key_free(
    ledger: Ledger, other: Ledger
) -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await ledger.run("s", "o", "k", 1, Effect(error=Mute()), on_error=OnError.KEEP)
    assert await other.run("s", "o", "k", 1, Effect()) == "paid"


async def test_closing_waits_for_an_effect_and_records_its_outcome(
    many: Many, ledger: Ledger
) -> None:
    effect = Effect()
    effect.gate = asyncio.Event()
    running = asyncio.create_task(ledger.run("s", "o", "k", 1, effect))
    await eventually(lambda: effect.runs == 1)
    closing = asyncio.create_task(ledger.close())
    await eventually(ledger.calls.loops.current.closing.is_set)
    with pytest.raises(NotRunning):
        await ledger.run("s", "o", "other", 1, Effect())
    assert not closing.done()
    effect.gate.set()
    assert await running == "paid"
    await closing
    with pytest.raises(NotRunning):
        await ledger.run("s", "o", "k", 1, Effect())


async def test_closing_ends_a_wait_for_another_caller(
    ledger: Ledger, other: Ledger, clock: VirtualClock
) -> None:
    lease = await other.begin("s", "o", "k", 1)
    assert isinstance(lease, EntryLease)
    waiting = asyncio.create_task(ledger.run("s", "o", "k", 1, Effect(), wait=3_600.0))
    await eventually(lambda: clock.next_wake() is not None)
    await ledger.close()
    with pytest.raises(NotRunning):
        await waiting


async def test_closing_does_not_wait_for_entries_begun_explicitly(ledger: Ledger) -> None:
    await started(ledger)
    await ledger.close()
