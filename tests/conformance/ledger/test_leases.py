"""Leases of entries: renewal, takeover with a fence, errors, lost answers."""

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
    KEY,
    LEASE,
    REQUEST,
    Effect,
    Many,
    pass_time,
    started,
)


async def test_a_caller_that_was_taken_over_cannot_record_its_outcome(
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
    assert await ledger.run(*KEY, REQUEST, Effect()) == "new"
    assert many.counted("fenced_total") == 4


async def test_a_current_lease_is_not_taken_over(
    ledger: Ledger, other: Ledger, clock: VirtualClock
) -> None:
    lease = await started(ledger)
    for _ in range(3):
        pass_time(clock, LEASE - 0.5)
        with pytest.raises(InProgress):
            await other.begin(*KEY, REQUEST)
        await ledger.extend(lease)
    pass_time(clock, LEASE)
    assert isinstance(await other.begin(*KEY, REQUEST), EntryLease)


async def test_an_expired_lease_that_was_not_taken_over_may_still_record_its_outcome(
    ledger: Ledger, clock: VirtualClock
) -> None:
    lease = await started(ledger)
    pass_time(clock, 5 * LEASE)
    await ledger.finish(lease, "late but alone")
    assert await ledger.run(*KEY, REQUEST, Effect()) == "late but alone"


async def test_the_lease_of_a_running_effect_is_renewed(
    many: Many, ledger: Ledger, other: Ledger, clock: VirtualClock
) -> None:
    effect = Effect()
    effect.gate = asyncio.Event()
    running = asyncio.create_task(ledger.run(*KEY, REQUEST, effect))
    await eventually(lambda: effect.runs == 1)
    for _ in range(9):
        await eventually(lambda: clock.next_wake() is not None)
        due = clock.next_wake()
        assert due is not None
        clock.set(due)
        await renewed(ledger, clock.now() + LEASE)
        with pytest.raises(InProgress):
            await other.run(*KEY, REQUEST, effect)
    effect.gate.set()
    assert await running == "paid"
    assert effect.runs == 1
    assert clock.next_wake() is None, "the renewal has stopped"


async def renewed(ledger: Ledger, until: float) -> None:
    async with asyncio.timeout(10):
        while True:
            entry = await ledger.get(*KEY)
            assert entry is not None
            if entry.lease_until == until:
                return
            await asyncio.sleep(0)


async def test_a_forgotten_error_is_visible_to_the_next_attempt(
    ledger: Ledger, other: Ledger
) -> None:
    effect = Effect(error=ConnectionError("no reply"))
    with pytest.raises(ConnectionError):
        await ledger.run(*KEY, REQUEST, effect)
    entry = await other.get(*KEY)
    assert entry is not None
    assert (entry.state, entry.outcome_json) == (State.ABANDONED, None)
    with pytest.raises(IdempotencyConflict):
        await other.run(*KEY, {"amount": 6}, effect)
    effect.error = None
    assert await other.run(*KEY, REQUEST, effect) == "paid"
    first, second = effect.leases
    assert (first.attempt, second.attempt) == (1, 2)
    assert first.id == second.id
    assert second.fence > first.fence
    assert second.taken_over_from is None


async def test_an_error_may_be_kept_as_the_answer(ledger: Ledger, other: Ledger) -> None:
    effect = Effect(error=ValueError("no such account \udcff\x00"))
    with pytest.raises(ValueError, match="no such account"):
        await ledger.run(*KEY, REQUEST, effect, on_error=OnError.KEEP)
    with pytest.raises(EffectFailed, match="ValueError: no such account"):
        await other.run(*KEY, REQUEST, effect)
    replay = await other.begin(*KEY, REQUEST)
    assert isinstance(replay, Answered)
    assert isinstance(replay.outcome, Failed)
    assert replay.outcome.error == "ValueError"
    assert effect.runs == 1


async def test_on_error_may_be_a_function_of_the_error(ledger: Ledger) -> None:
    def policy(error: Exception) -> OnError:
        return OnError.KEEP if isinstance(error, ValueError) else OnError.FORGET

    effect = Effect(error=TimeoutError())
    with pytest.raises(TimeoutError):
        await ledger.run(*KEY, REQUEST, effect, on_error=policy)
    effect.error = ValueError("bad")
    with pytest.raises(ValueError, match="bad"):
        await ledger.run(*KEY, REQUEST, effect, on_error=policy)
    with pytest.raises(EffectFailed):
        await ledger.run(*KEY, REQUEST, effect, on_error=policy)
    assert effect.runs == 2


async def test_a_cancelled_call_frees_its_key_at_once(ledger: Ledger, other: Ledger) -> None:
    effect = Effect()
    effect.gate = asyncio.Event()
    running = asyncio.create_task(ledger.run(*KEY, REQUEST, effect))
    await eventually(lambda: effect.runs == 1)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    effect.gate = None
    assert await other.run(*KEY, REQUEST, effect) == "paid"
    assert [lease.attempt for lease in effect.leases] == [1, 2]


async def test_an_effect_whose_answer_cannot_be_stored_does_not_run_again(ledger: Ledger) -> None:
    effect = Effect(object())
    with pytest.raises(UnserialisablePayload):
        await ledger.run(*KEY, REQUEST, effect)
    with pytest.raises(EffectFailed, match="UnserialisablePayload"):
        await ledger.run(*KEY, REQUEST, effect)
    assert effect.runs == 1


async def test_a_repeated_end_is_accepted(ledger: Ledger) -> None:
    """A reply may be lost: repeating the same end is accepted, a different end is refused."""
    lease = await started(ledger)
    await ledger.finish(lease, "paid")
    await ledger.finish(lease, "paid")
    with pytest.raises(LeaseLost):
        await ledger.finish(lease, "something else")
    with pytest.raises(LeaseLost):
        await ledger.abandon(lease)


async def test_a_repeated_begin_returns_the_same_lease(ledger: Ledger) -> None:
    request = ledger.calls.entry_request(*KEY, REQUEST)
    first = await ledger.calls.begin(request, None)
    again = await ledger.calls.begin(request, None)
    assert isinstance(first, rules.Start)
    assert isinstance(again, rules.Start)
    assert again.lease == first.lease
    await ledger.finish(again.lease, 1)


async def test_a_delayed_begin_of_an_abandoned_call_is_stale(ledger: Ledger, other: Ledger) -> None:
    """A network may deliver a begin twice, the second time after the end."""
    request = ledger.calls.entry_request(*KEY, REQUEST)
    lease = rules.started(await ledger.calls.entries.begin(request))
    await ledger.abandon(lease)
    assert isinstance(await ledger.calls.entries.begin(request), rules.Stale)
    assert await other.run(*KEY, REQUEST, Effect()) == "paid"
