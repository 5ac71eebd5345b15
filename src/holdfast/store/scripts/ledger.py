"""The ledger's transactions: begin a call, end it, or do both around an effect in one.

Promises: what begins and ends in one transaction with its effect is there with it or not at all; the end of
a turn that was taken over changes nothing and raises LeaseLost. The rules are in `holdfast.core.ledger`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from holdfast.core import codec, ledger as rules
from holdfast.core.ledger import (
    Ask,
    Entry,
    Outcome,
    Place,
    Replay,
    Runner,
    Start,
    State,
    Turn,
    Verdict,
)
from holdfast.errors import LeaseLost, StoreUnavailable
from holdfast.store.script import Script, call

TRIES: Final = 8
"""A key that vanishes (pruned) each time it is looked at has bad luck; it does not loop for ever."""


def begin(ask: Ask, now: float, *, carried: bool = False) -> Script[Verdict]:
    """Takes the turn, or says why not. `carried`: nobody sees the entry before the caller's commit, and
    one that is committed without its end is free at once."""
    if ask.runner is not None:
        yield from _check_runner("runs_task", ask.runner)
    lease_until = now if carried else now + ask.lease_seconds
    for _ in range(TRIES):
        verdict = rules.begin(None, ask, now)
        assert isinstance(verdict, Start)
        new = yield call(
            "begin_entry",
            **_place(ask.place),
            fingerprint=ask.fingerprint,
            fence=verdict.turn.fence,
            owner=ask.owner,
            now=now,
            lease_until=lease_until,
            expires_at=_expiry(ask.retention_seconds, lease_until),
        )
        if new:
            return verdict
        seen = yield from _locked(ask.place)
        if seen is not None:
            return (yield from _judge(seen, ask, now, lease_until))
    raise StoreUnavailable(f"the entry of {ask.place} came and went {TRIES} times: try again")


def _judge(seen: Entry, ask: Ask, now: float, lease_until: float) -> Script[Verdict]:
    verdict = rules.begin(seen, ask, now)
    if isinstance(verdict, Start):
        turn = verdict.turn
        taken = yield call(
            "retake_entry",
            **_place(ask.place),
            seen=verdict.seen,
            fence=turn.fence,
            owner=turn.owner,
            attempt=turn.attempt,
            begun_at=turn.begun_at,
            lease_until=lease_until,
            expires_at=_expiry(ask.retention_seconds, lease_until),
        )
        assert taken, "the row is locked"
    return verdict


def end(turn: Turn, outcome: Outcome | None, now: float) -> Script[None]:
    """Writes how the turn ended; None gives it up without an answer."""
    if turn.runner is not None:
        yield from _check_runner("hold_task", turn.runner)
    state = State.ABANDONED if outcome is None else rules.state_of(outcome)
    text = None if outcome is None else rules.outcome_json(outcome)
    written = yield call(
        "end_entry",
        **_place(turn.place),
        fence=turn.fence,
        owner=turn.owner,
        state=state.value,
        now=now,
        expires_at=_expiry(turn.retention_seconds, now),
        outcome_json=text,
    )
    if written:
        return
    found = yield from get(turn.place)
    if not rules.is_echo(found, turn, state, text):
        raise lost(turn)


def extend(turn: Turn, lease_seconds: float, now: float) -> Script[None]:
    """Renews the lease of a turn that nobody has taken over."""
    until = now + lease_seconds
    kept = yield call(
        "extend_entry",
        **_place(turn.place),
        fence=turn.fence,
        owner=turn.owner,
        lease_until=until,
        expires_at=_expiry(turn.retention_seconds, until),
    )
    if not kept:
        raise lost(turn)


def once(ask: Ask, effect: Callable[[Turn], Script[object]], now: float) -> Script[codec.Json]:
    """The effect, a script as well, and its record in one transaction: both or neither. A repeat gets the
    answer of the first call; an effect that raises leaves nothing behind."""
    verdict = yield from begin(ask, now, carried=True)
    if isinstance(verdict, Replay):
        return rules.answer(verdict.outcome)
    turn = rules.started(verdict)
    outcome = rules.done((yield from effect(turn)))
    yield from end(turn, outcome, now)
    return rules.answer(outcome)


def get(place: Place) -> Script[Entry | None]:
    rows = yield call("get_entry", **_place(place))
    return entry(rows[0]) if rows else None


def entry(row: Any) -> Entry:
    scope, operation, key, fingerprint, state, *rest = row
    return Entry(Place(scope, operation, key), fingerprint, State(state), *rest)


def lost(turn: Turn) -> LeaseLost:
    return LeaseLost(
        f"{turn.place} was taken over from this caller (its fence is {turn.fence}): its outcome is not "
        "written; ask for the answer again"
    )


def _locked(place: Place) -> Script[Entry | None]:
    rows = yield call("lock_entry", **_place(place))
    return entry(rows[0]) if rows else None


def _check_runner(statement: str, runner: Runner) -> Script[None]:
    rows = yield call(statement, id=runner.task_id, fence=runner.fence)
    if not rows:
        raise LeaseLost(
            f"task {runner.task_id} was taken away from this runner (its fence is {runner.fence}): "
            "its step is refused"
        )


def _place(place: Place) -> dict[str, str]:
    return {"scope": place.scope, "operation": place.operation, "key": place.key}


def _expiry(retention_seconds: float | None, end: float) -> float | None:
    return None if retention_seconds is None else end + retention_seconds
