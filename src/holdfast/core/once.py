"""The flow of one idempotent call: begin, run the effect, write the outcome.

The ledger and the steps of tasks share this flow, in async and in blocking code. The driver performs each
step (`holdfast.core.steps`).
Promises: the outcome is written before the answer is returned; the first caller gets the same value as
repeats; after an interrupted effect the next caller may start at once. `BeginStep` and `EndStep` are
finished even when the caller is interrupted (`steps.Interrupted`).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Final, TypeAlias

import msgspec

from holdfast.core import codec, ledger as rules
from holdfast.core.check import check_callable, check_number
from holdfast.core.ledger import Answered, Busy, EntryLease, EntryVerdict, Outcome, Start
from holdfast.core.steps import Flow

POLL_SECONDS: Final = 0.01
POLL_SECONDS_MAX: Final = 0.5


class OnError(StrEnum):
    """What the ledger stores when the effect raises."""

    FORGET = "forget"
    """Nothing: the same request may try again. Its `attempt` says that an earlier one may have acted."""
    KEEP = "keep"
    """The failure, as the permanent answer: repeats raise EffectFailed."""


ErrorPolicy: TypeAlias = OnError | Callable[[Exception], OnError]


class BeginStep(msgspec.Struct, frozen=True):
    """Request the entry; the answer is a verdict."""


class RunStep(msgspec.Struct, frozen=True):
    """Run the effect; the answer is its value."""

    lease: EntryLease


class EndStep(msgspec.Struct, frozen=True):
    """Write the outcome; None when the lease was given up."""

    lease: EntryLease
    outcome: Outcome | None


class WaitStep(msgspec.Struct, frozen=True):
    """Pause before the next request."""

    seconds: float


Step: TypeAlias = BeginStep | RunStep | EndStep | WaitStep


def check_call(on_error: ErrorPolicy, wait_seconds: float = 0.0) -> None:
    """InvalidInput unless the arguments of a call are valid."""
    check_number("wait", wait_seconds)
    if not isinstance(on_error, OnError):
        check_callable("on_error", on_error)


def call(
    *,
    wait_seconds: float = 0.0,
    on_error: ErrorPolicy = OnError.FORGET,
    in_tx: bool = False,
) -> Flow[Step, codec.Json]:
    """One call. With `in_tx` the entry is part of the caller's transaction, whose rollback removes it
    when the effect fails."""
    check_call(on_error, wait_seconds)
    waited, polls = 0.0, 0
    verdict: EntryVerdict
    while isinstance(verdict := (yield BeginStep()), Busy) and waited < wait_seconds:
        pause = min(POLL_SECONDS * 2.0**polls, POLL_SECONDS_MAX, wait_seconds - waited)
        yield WaitStep(pause)
        waited, polls = waited + pause, min(polls + 1, 10)
    if isinstance(verdict, Answered):
        return rules.answer(verdict.outcome)
    lease = rules.started(verdict)
    try:
        value = yield RunStep(lease)
    except GeneratorExit:
        raise
    except BaseException as error:
        # Interrupted or failed: it may have acted, so the next attempt must know of this one.
        if not in_tx:
            yield from _give_up(lease, error, on_error)
        raise
    try:
        outcome = rules.done(value)
    except Exception as error:
        # The effect has happened. Another attempt would repeat it and fail with the same answer.
        yield EndStep(lease, rules.failed(error))
        raise
    yield EndStep(lease, outcome)
    return rules.answer(outcome)


def _give_up(lease: EntryLease, error: BaseException, on_error: ErrorPolicy) -> Flow[Step, None]:
    """Writes the failure, or that the lease was given up. An error of this write does not replace the
    error of the effect. An error of the caller's policy does."""
    outcome, wrong = None, None
    if isinstance(error, Exception):
        try:
            outcome = _outcome(error, on_error)
        except BaseException as raised:  # Raised below, after the end is written.
            wrong = raised
    try:
        yield EndStep(lease, outcome)
    except Exception as later:
        error.add_note(
            f"the end of {lease.entry_key} was not written: {later!r}; its lease has to expire"
        )
    if wrong is not None:
        raise wrong from error


def _outcome(error: Exception, on_error: ErrorPolicy) -> Outcome | None:
    policy = on_error if isinstance(on_error, OnError) else on_error(error)
    return rules.failed(error) if policy is OnError.KEEP else None


def begin() -> Flow[Step, EntryVerdict]:
    """Begins a call whose caller writes the end itself. When the caller is interrupted, the lease is given
    back."""
    verdict: EntryVerdict = yield BeginStep()
    if isinstance(verdict, Start):
        try:
            yield WaitStep(0.0)
        except BaseException as error:
            yield from _give_up(verdict.lease, error, OnError.FORGET)
            raise
    return verdict
