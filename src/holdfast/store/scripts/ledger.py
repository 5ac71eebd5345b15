"""The ledger's transactions: begin a call, end it, or do both around an effect in one.

Promises: an entry that begins and ends in one transaction with its effect is stored with it or not at all;
the end of an entry that was taken over changes nothing and raises LeaseLost. The rules are in
`holdfast.core.ledger`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from holdfast.core import codec, ledger as rules
from holdfast.core.ledger import (
    Answered,
    Entry,
    EntryKey,
    EntryLease,
    EntryRequest,
    EntryVerdict,
    Outcome,
    Runner,
    Start,
    State,
)
from holdfast.errors import LeaseLost, StoreUnavailable
from holdfast.store.script import Script, call

TRIES: Final = 8
"""An entry may be pruned before each read of it. The tries are bounded, so the script ends."""


def begin(ask: EntryRequest, now: float, *, carried: bool = False) -> Script[EntryVerdict]:
    """Starts the entry, or returns why not. `carried`: no other transaction sees the entry before the
    caller's commit, and an entry that is committed without its end is free at once."""
    if ask.runner is not None:
        yield from _check_runner("runs_task", ask.runner)
    lease_until = now if carried else now + ask.lease_seconds
    for _ in range(TRIES):
        verdict = rules.begin(None, ask, now)
        assert isinstance(verdict, Start)
        new = yield call(
            "begin_entry",
            **_place(ask.entry_key),
            fingerprint=ask.fingerprint,
            fence=verdict.lease.fence,
            owner=ask.owner,
            now=now,
            lease_until=lease_until,
            expires_at=_expiry(ask.retention_seconds, lease_until),
        )
        if new:
            return verdict
        seen = yield from _locked(ask.entry_key)
        if seen is not None:
            return (yield from _judge(seen, ask, now, lease_until))
    raise StoreUnavailable(f"the entry of {ask.entry_key} came and went {TRIES} times: try again")


def _judge(seen: Entry, ask: EntryRequest, now: float, lease_until: float) -> Script[EntryVerdict]:
    verdict = rules.begin(seen, ask, now)
    if isinstance(verdict, Start):
        lease = verdict.lease
        taken = yield call(
            "retake_entry",
            **_place(ask.entry_key),
            seen=verdict.replaced_fence,
            fence=lease.fence,
            owner=lease.owner,
            attempt=lease.attempt,
            begun_at=lease.begun_at,
            lease_until=lease_until,
            expires_at=_expiry(ask.retention_seconds, lease_until),
        )
        assert taken, "the row is locked"
    return verdict


def end(lease: EntryLease, outcome: Outcome | None, now: float) -> Script[None]:
    """Writes how the turn ended; None gives it up without an answer."""
    if lease.runner is not None:
        yield from _check_runner("hold_task", lease.runner)
    state = State.ABANDONED if outcome is None else rules.state_of(outcome)
    text = None if outcome is None else rules.outcome_json(outcome)
    written = yield call(
        "end_entry",
        **_place(lease.entry_key),
        fence=lease.fence,
        owner=lease.owner,
        state=state.value,
        now=now,
        expires_at=_expiry(lease.retention_seconds, now),
        outcome_json=text,
    )
    if written:
        return
    found = yield from get(lease.entry_key)
    if not rules.is_repeat(found, lease, state, text):
        raise lost(lease)


def extend(lease: EntryLease, lease_seconds: float, now: float) -> Script[None]:
    """Renews the lease of an entry that was not taken over."""
    until = now + lease_seconds
    kept = yield call(
        "extend_entry",
        **_place(lease.entry_key),
        fence=lease.fence,
        owner=lease.owner,
        lease_until=until,
        expires_at=_expiry(lease.retention_seconds, until),
    )
    if not kept:
        raise lost(lease)


def once(
    ask: EntryRequest, effect: Callable[[EntryLease], Script[object]], now: float
) -> Script[codec.Json]:
    """The effect, a script as well, and its record in one transaction: both or neither. A repeat gets the
    answer of the first call; an effect that raises leaves nothing behind."""
    verdict = yield from begin(ask, now, carried=True)
    if isinstance(verdict, Answered):
        return rules.answer(verdict.outcome)
    lease = rules.started(verdict)
    outcome = rules.done((yield from effect(lease)))
    yield from end(lease, outcome, now)
    return rules.answer(outcome)


def get(place: EntryKey) -> Script[Entry | None]:
    rows = yield call("get_entry", **_place(place))
    return entry(rows[0]) if rows else None


def unfinished(scope: str | None, limit: int, now: float) -> Script[list[Entry]]:
    """Entries of calls in progress whose lease has ended."""
    rows = yield call("unfinished_entries", now=now, scope=scope, limit=limit)
    return [entry(row) for row in rows]


def entry(row: Any) -> Entry:
    scope, operation, key, fingerprint, state, *rest = row
    return Entry(EntryKey(scope, operation, key), fingerprint, State(state), *rest)


def lost(lease: EntryLease) -> LeaseLost:
    return LeaseLost(
        f"{lease.entry_key} was taken over from this caller (its fence is {lease.fence}): its outcome is not "
        "written; ask for the answer again"
    )


def _locked(place: EntryKey) -> Script[Entry | None]:
    rows = yield call("lock_entry", **_place(place))
    return entry(rows[0]) if rows else None


def _check_runner(statement: str, runner: Runner) -> Script[None]:
    rows = yield call(statement, id=runner.task_id, fence=runner.fence)
    if not rows:
        raise LeaseLost(
            f"task {runner.task_id} was taken away from this runner (its fence is {runner.fence}): "
            "its step is refused"
        )


def _place(place: EntryKey) -> dict[str, str]:
    return {"scope": place.scope, "operation": place.operation, "key": place.key}


def _expiry(retention_seconds: float | None, end: float) -> float | None:
    return None if retention_seconds is None else end + retention_seconds
