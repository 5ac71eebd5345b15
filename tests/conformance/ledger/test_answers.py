"""One effect and its answer; concurrent callers get InProgress, or wait."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast.clock import VirtualClock
from holdfast.errors import (
    IdempotencyConflict,
    InProgress,
)
from holdfast.primitives.idempotency import (
    Answered,
    Done,
    EntryLease,
    Ledger,
    State,
)
from tests.acceptance.apps.harness import eventually
from tests.conformance.ledger.support import (
    KEY,
    LEASE,
    REQUEST,
    Effect,
    Many,
    advance,
    pass_time,
    started,
)


async def test_a_repeat_gets_the_answer_of_the_first_call(ledger: Ledger, other: Ledger) -> None:
    answers: list[Any] = ["paid", None, False, 0, {"b": 1, "a": [1.5, None]}, []]
    for n, answer in enumerate(answers):
        place = ("account:7", "charge", f"key-{n}")
        effect = Effect(answer)
        assert await ledger.run(*place, REQUEST, effect) == answer
        for repeat in (ledger, other):
            assert await repeat.run(*place, dict(reversed(REQUEST.items())), effect) == answer
        assert effect.runs == 1
    entry = await other.get(*KEY)
    assert entry is not None
    assert (entry.state, entry.attempt, entry.lease_until) == (State.DONE, 1, None)
    assert entry.owner.startswith("ann#")


async def test_the_first_caller_gets_the_same_value_as_repeats(ledger: Ledger) -> None:
    effect = Effect({"pair": (1, 2)})
    first = await ledger.run(*KEY, REQUEST, effect)
    assert first == {"pair": [1, 2]} == await ledger.run(*KEY, REQUEST, effect)


async def test_another_request_under_the_same_key_is_refused(
    many: Many, ledger: Ledger, other: Ledger
) -> None:
    effect = Effect()
    lease = await started(ledger)
    for state in ("in progress", "done"):
        with pytest.raises(IdempotencyConflict, match="charge 'key-1' of account:7"):
            await other.run(*KEY, {"amount": 6}, effect)
        if state == "in progress":
            await ledger.finish(lease, 1)
    assert effect.runs == 0
    assert many.counted("conflicts_total") == 2


async def test_scopes_operations_and_keys_are_separate(ledger: Ledger) -> None:
    effect = Effect()
    for scope, operation, key in (
        *(("a", "b", "c"), ("a", "c", "b"), ("b", "a", "c"), ("a'b", "c", "d"), ("ž", "雪", "🙂")),
    ):
        await ledger.run(scope, operation, key, {"for": key}, effect)
    assert effect.runs == 5
    assert len({lease.id for lease in effect.leases}) == 5


async def test_a_concurrent_repeat_gets_the_owner_and_start_of_the_running_call(
    many: Many, ledger: Ledger, other: Ledger, clock: VirtualClock
) -> None:
    started_at = clock.now()
    lease = await started(ledger)
    pass_time(clock, 2.0)
    with pytest.raises(InProgress) as raised:
        await other.run(*KEY, REQUEST, Effect())
    error = raised.value
    assert (error.owner, error.since, error.lease_until) == (
        lease.owner,
        started_at,
        started_at + LEASE,
    )
    assert error.retryable
    assert lease.owner in str(error)
    assert many.counted("in_flight_total") == 1


async def test_a_repeat_may_wait_for_the_answer(
    many: Many, ledger: Ledger, other: Ledger, clock: VirtualClock
) -> None:
    effect = Effect()
    lease = await started(ledger)
    waiting = asyncio.create_task(other.run(*KEY, REQUEST, effect, wait=60.0))
    await eventually(lambda: many.counted("in_flight_total") == 1 and bool(clock.next_wake()))
    await ledger.finish(lease, "paid")
    await advance(clock, waiting)
    assert await waiting == "paid"
    assert effect.runs == 0


async def test_a_waiting_caller_takes_over_when_the_lease_expires(
    many: Many, ledger: Ledger, other: Ledger, clock: VirtualClock
) -> None:
    effect = Effect()
    lease = await started(ledger)
    waiting = asyncio.create_task(other.run(*KEY, REQUEST, effect, wait=60.0))
    await advance(clock, waiting)
    assert await waiting == "paid"
    taken = effect.leases[0]
    assert (taken.attempt, taken.taken_over_from) == (2, lease.owner)
    assert taken.fence > lease.fence
    assert many.counted("takeovers_total") == 1


async def test_a_wait_for_the_answer_times_out(
    ledger: Ledger, other: Ledger, clock: VirtualClock
) -> None:
    await started(ledger)
    started_at = clock.now()
    waiting = asyncio.create_task(other.run(*KEY, REQUEST, Effect(), wait=3.0))
    await advance(clock, waiting)
    with pytest.raises(InProgress):
        await waiting
    assert clock.now() - started_at == pytest.approx(3.0)


async def test_a_decorated_function_is_idempotent(ledger: Ledger) -> None:
    acted: list[Any] = []

    @ledger.once("account:7", "charge", key=lambda request: request["id"])
    async def charge(lease: EntryLease, request: dict[str, Any]) -> str:
        acted.append(request)
        return f"charged {request['amount']}"

    for _ in range(2):
        assert await charge({"id": "a", "amount": 5}) == "charged 5"
    with pytest.raises(IdempotencyConflict):
        await charge({"id": "a", "amount": 6})
    assert len(acted) == 1
    assert charge.__name__ == "charge"


async def test_a_null_answer_differs_from_no_answer(ledger: Ledger) -> None:
    assert await ledger.get(*KEY) is None
    await ledger.run(*KEY, REQUEST, Effect(None))
    replay = await ledger.begin(*KEY, REQUEST)
    assert isinstance(replay, Answered)
    assert replay.outcome == Done("null")


async def test_concurrent_callers_run_one_effect(many: Many, ledger: Ledger, other: Ledger) -> None:
    effect = Effect()
    third = many.open("cid")
    callers = [ledger, other, third] * 10
    answers = await asyncio.gather(
        *(caller.run(*KEY, REQUEST, effect) for caller in callers), return_exceptions=True
    )
    assert effect.runs == 1
    assert {str(a) for a in answers if not isinstance(a, InProgress)} == {"paid"}
    assert await third.run(*KEY, REQUEST, effect) == "paid"
