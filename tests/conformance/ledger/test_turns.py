"""A turn at an effect: its lease, takeover with a fence, errors, answers that were lost."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.clock import VirtualClock
from holdfast.core import ledger as rules
from holdfast.errors import (
    EffectFailed,
    IdempotencyConflict,
    InProgress,
    LeaseLost,
    UnserialisablePayload,
)
from holdfast.primitives.idempotency import (
    Answered,
    EntryLease,
    Failed,
    Ledger,
    OnError,
    State,
)
from tests.acceptance.apps.harness import eventually
from tests.conformance.ledger.support import (
    LEASE,
    PLACE,
    REQUEST,
    Effect,
    Many,
    pass_time,
    started,
)


async def test_whoever_was_taken_over_cannot_write_its_outcome(
    many: Many, ledger: Ledger, other: Ledger, clock: VirtualClock
) -> None:
    old = await started(ledger)
    pass_time(clock, LEASE)
    new = await started(other)
    for late in (
        *(ledger.finish(old, "old"), ledger.fail(old, ValueError()), ledger.abandon(old)),
        ledger.extend(old),
    ):
        with pytest.raises(LeaseLost, match="taken over"):
            await late
    await other.finish(new, "new")
    with pytest.raises(LeaseLost):
        await ledger.finish(old, "old")
    assert await ledger.run(*PLACE, REQUEST, Effect()) == "new"
    assert many.counted("fenced_total") == 4


async def test_a_lease_that_runs_is_not_taken(
    ledger: Ledger, other: Ledger, clock: VirtualClock
) -> None:
    lease = await started(ledger)
    for _ in range(3):
        pass_time(clock, LEASE - 0.5)
        with pytest.raises(InProgress):
            await other.begin(*PLACE, REQUEST)
        await ledger.extend(lease)
    pass_time(clock, LEASE)
    assert isinstance(await other.begin(*PLACE, REQUEST), EntryLease)


async def test_a_late_owner_that_nobody_took_over_may_still_end(
    ledger: Ledger, clock: VirtualClock
) -> None:
    lease = await started(ledger)
    pass_time(clock, 5 * LEASE)
    await ledger.finish(lease, "late but alone")
    assert await ledger.run(*PLACE, REQUEST, Effect()) == "late but alone"


async def test_the_lease_of_a_running_effect_is_renewed(
    many: Many, ledger: Ledger, other: Ledger, clock: VirtualClock
) -> None:
    effect = Effect()
    effect.gate = asyncio.Event()
    running = asyncio.create_task(ledger.run(*PLACE, REQUEST, effect))
    await eventually(lambda: effect.runs == 1)
    for _ in range(9):
        await eventually(lambda: clock.next_wake() is not None)
        due = clock.next_wake()
        assert due is not None
        clock.set(due)
        await renewed(ledger, clock.now() + LEASE)
        with pytest.raises(InProgress):
            await other.run(*PLACE, REQUEST, effect)
    effect.gate.set()
    assert await running == "paid"
    assert effect.runs == 1
    assert clock.next_wake() is None, "nobody goes on renewing"


async def renewed(ledger: Ledger, until: float) -> None:
    async with asyncio.timeout(10):
        while True:
            entry = await ledger.get(*PLACE)
            assert entry is not None
            if entry.lease_until == until:
                return
            await asyncio.sleep(0)


async def test_an_error_is_forgotten_and_the_next_turn_is_told(
    ledger: Ledger, other: Ledger
) -> None:
    effect = Effect(error=ConnectionError("no reply"))
    with pytest.raises(ConnectionError):
        await ledger.run(*PLACE, REQUEST, effect)
    entry = await other.get(*PLACE)
    assert entry is not None
    assert (entry.state, entry.outcome_json) == (State.ABANDONED, None)
    with pytest.raises(IdempotencyConflict):
        await other.run(*PLACE, {"amount": 6}, effect)
    effect.error = None
    assert await other.run(*PLACE, REQUEST, effect) == "paid"
    first, second = effect.turns
    assert (first.attempt, second.attempt) == (1, 2)
    assert first.id == second.id
    assert second.fence > first.fence
    assert second.taken_over_from is None


async def test_an_error_may_be_kept_as_the_answer(ledger: Ledger, other: Ledger) -> None:
    effect = Effect(error=ValueError("no such account \udcff\x00"))
    with pytest.raises(ValueError, match="no such account"):
        await ledger.run(*PLACE, REQUEST, effect, on_error=OnError.KEEP)
    with pytest.raises(EffectFailed, match="ValueError: no such account"):
        await other.run(*PLACE, REQUEST, effect)
    replay = await other.begin(*PLACE, REQUEST)
    assert isinstance(replay, Answered)
    assert isinstance(replay.outcome, Failed)
    assert replay.outcome.error == "ValueError"
    assert effect.runs == 1


async def test_the_caller_may_choose_by_error(ledger: Ledger) -> None:
    def policy(error: Exception) -> OnError:
        return OnError.KEEP if isinstance(error, ValueError) else OnError.FORGET

    effect = Effect(error=TimeoutError())
    with pytest.raises(TimeoutError):
        await ledger.run(*PLACE, REQUEST, effect, on_error=policy)
    effect.error = ValueError("bad")
    with pytest.raises(ValueError, match="bad"):
        await ledger.run(*PLACE, REQUEST, effect, on_error=policy)
    with pytest.raises(EffectFailed):
        await ledger.run(*PLACE, REQUEST, effect, on_error=policy)
    assert effect.runs == 2


async def test_a_cancelled_call_is_free_at_once(ledger: Ledger, other: Ledger) -> None:
    effect = Effect()
    effect.gate = asyncio.Event()
    running = asyncio.create_task(ledger.run(*PLACE, REQUEST, effect))
    await eventually(lambda: effect.runs == 1)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    effect.gate = None
    assert await other.run(*PLACE, REQUEST, effect) == "paid"
    assert [lease.attempt for lease in effect.turns] == [1, 2]


async def test_an_answer_that_cannot_be_kept_is_not_worked_for_twice(ledger: Ledger) -> None:
    effect = Effect(object())
    with pytest.raises(UnserialisablePayload):
        await ledger.run(*PLACE, REQUEST, effect)
    with pytest.raises(EffectFailed, match="UnserialisablePayload"):
        await ledger.run(*PLACE, REQUEST, effect)
    assert effect.runs == 1


async def test_what_is_said_twice_is_an_echo(ledger: Ledger) -> None:
    """A reply may be lost: the same end again is fine, another end is not."""
    lease = await started(ledger)
    await ledger.finish(lease, "paid")
    await ledger.finish(lease, "paid")
    with pytest.raises(LeaseLost):
        await ledger.finish(lease, "something else")
    with pytest.raises(LeaseLost):
        await ledger.abandon(lease)


async def test_a_beginning_whose_answer_was_lost_is_found_again(ledger: Ledger) -> None:
    ask = ledger.calls.entry_request(*PLACE, REQUEST)
    first = await ledger.calls.begin(ask, None)
    again = await ledger.calls.begin(ask, None)
    assert isinstance(first, rules.Start)
    assert isinstance(again, rules.Start)
    assert again.lease == first.lease
    await ledger.finish(again.lease, 1)


async def test_a_beginning_that_comes_late_does_not_take_what_its_call_gave_up(
    ledger: Ledger, other: Ledger
) -> None:
    """A network may deliver it twice, the second time after the end."""
    ask = ledger.calls.entry_request(*PLACE, REQUEST)
    lease = rules.started(await ledger.calls.entries.begin(ask))
    await ledger.abandon(lease)
    assert isinstance(await ledger.calls.entries.begin(ask), rules.Stale)
    assert await other.run(*PLACE, REQUEST, Effect()) == "paid"
