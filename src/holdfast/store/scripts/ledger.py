"""The transactions of the ledger: begin an entry, end it, or do both around an effect.

Promises: `once` commits the entry and its effect together. Ending an entry that was taken over writes
nothing and raises LeaseLost.
Never: decides; the rules are in `holdfast.core.ledger`.
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
"""Attempts to insert or read an entry. An entry may be pruned between the two; the bound ends the loop."""


def begin(ask: EntryRequest, now: float, *, in_tx: bool = False) -> Script[EntryVerdict]:
    """Starts the entry, or returns why not. `in_tx`: this is the caller's transaction. No other transaction
    sees the entry before the commit, so its lease ends at once: an entry that is committed without an outcome
    can be taken over immediately."""
    if ask.runner is not None:
        yield from _check_runner("runs_task", ask.runner)
    lease_until = now if in_tx else now + ask.lease_seconds
    for _ in range(TRIES):
        verdict = rules.begin(None, ask, now)
        assert isinstance(verdict, Start)
        new = yield call(
            "begin_entry",
            **_key_fields(ask.entry_key),
            fingerprint=ask.fingerprint,
            fence=verdict.lease.fence,
            owner=ask.owner,
            now=now,
            lease_until=lease_until,
            expires_at=_expiry(ask.retention_seconds, lease_until),
        )
        if new:
            return verdict
        existing = yield from _locked(ask.entry_key)
        if existing is not None:
            return (yield from _judge(existing, ask, now, lease_until))
    raise StoreUnavailable(f"the entry of {ask.entry_key} came and went {TRIES} times: try again")


def _judge(
    existing: Entry, ask: EntryRequest, now: float, lease_until: float
) -> Script[EntryVerdict]:
    verdict = rules.begin(existing, ask, now)
    if isinstance(verdict, Start):
        lease = verdict.lease
        taken = yield call(
            "retake_entry",
            **_key_fields(ask.entry_key),
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
    """Writes the outcome of the entry. None abandons it without an outcome."""
    if lease.runner is not None:
        yield from _check_runner("hold_task", lease.runner)
    state = State.ABANDONED if outcome is None else rules.state_of(outcome)
    text = None if outcome is None else rules.outcome_json(outcome)
    written = yield call(
        "end_entry",
        **_key_fields(lease.entry_key),
        fence=lease.fence,
        owner=lease.owner,
        state=state.value,
        now=now,
        expires_at=_expiry(lease.retention_seconds, now),
        outcome_json=text,
    )
    if written:
        return
    existing = yield from get(lease.entry_key)
    if not rules.is_repeat(existing, lease, state, text):
        raise lost(lease)


def extend(lease: EntryLease, lease_seconds: float, now: float) -> Script[None]:
    """Renews the lease of the entry. Raises LeaseLost if the entry was taken over."""
    until = now + lease_seconds
    renewed = yield call(
        "extend_entry",
        **_key_fields(lease.entry_key),
        fence=lease.fence,
        owner=lease.owner,
        lease_until=until,
        expires_at=_expiry(lease.retention_seconds, until),
    )
    if not renewed:
        raise lost(lease)


def once(
    ask: EntryRequest, effect: Callable[[EntryLease], Script[object]], now: float
) -> Script[codec.Json]:
    """Runs an effect, itself a script, and its entry in one transaction. A repeat gets the answer of the
    first call. An effect that raises rolls back the entry too."""
    verdict = yield from begin(ask, now, in_tx=True)
    if isinstance(verdict, Answered):
        return rules.answer(verdict.outcome)
    lease = rules.started(verdict)
    outcome = rules.done((yield from effect(lease)))
    yield from end(lease, outcome, now)
    return rules.answer(outcome)


def get(entry_key: EntryKey) -> Script[Entry | None]:
    rows = yield call("get_entry", **_key_fields(entry_key))
    return entry(rows[0]) if rows else None


def unfinished(scope: str | None, limit: int, now: float) -> Script[list[Entry]]:
    """Entries in progress whose lease has expired."""
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


def _locked(entry_key: EntryKey) -> Script[Entry | None]:
    rows = yield call("lock_entry", **_key_fields(entry_key))
    return entry(rows[0]) if rows else None


def _check_runner(statement: str, runner: Runner) -> Script[None]:
    rows = yield call(statement, id=runner.task_id, fence=runner.fence)
    if not rows:
        raise LeaseLost(
            f"task {runner.task_id} was taken away from this runner (its fence is {runner.fence}): "
            "its step is refused"
        )


def _key_fields(entry_key: EntryKey) -> dict[str, str]:
    return {"scope": entry_key.scope, "operation": entry_key.operation, "key": entry_key.key}


def _expiry(retention_seconds: float | None, end: float) -> float | None:
    return None if retention_seconds is None else end + retention_seconds
