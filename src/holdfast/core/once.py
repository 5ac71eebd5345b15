"""The course of one idempotent call: begin, run the effect, write down how it ended.

One text for the ledger, for steps of tasks, for callers that await and callers that block: each step is
done by whoever drives the flow (`holdfast.core.steps`).
Promises: an effect that ended is written down before its answer is given; the first caller gets the very
value that repeats get; an effect that was broken off is free for the next one at once. `Begin` and `End` are
finished although the caller is interrupted (`steps.Interrupted`).
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
    """What an error of the effect leaves behind."""

    FORGET = "forget"
    """Nothing: the same request may try again. It is told that an earlier turn may have acted."""
    KEEP = "keep"
    """The failure, as the answer for good: repeats raise EffectFailed."""


ErrorPolicy: TypeAlias = OnError | Callable[[Exception], OnError]


class BeginStep(msgspec.Struct, frozen=True):
    """Ask for the turn; the answer is a verdict."""


class RunStep(msgspec.Struct, frozen=True):
    """Run the effect; the answer is its value."""

    lease: EntryLease


class EndStep(msgspec.Struct, frozen=True):
    """Write down how the turn ended; None: it was given up."""

    lease: EntryLease
    outcome: Outcome | None


class WaitStep(msgspec.Struct, frozen=True):
    """Let time pass before asking again."""

    seconds: float


Step: TypeAlias = BeginStep | RunStep | EndStep | WaitStep


def check_call(on_error: ErrorPolicy, wait_seconds: float = 0.0) -> None:
    """InvalidInput when a call cannot be made like this."""
    check_number("wait", wait_seconds)
    if not isinstance(on_error, OnError):
        check_callable("on_error", on_error)


def call(
    *,
    wait_seconds: float = 0.0,
    on_error: ErrorPolicy = OnError.FORGET,
    carried: bool = False,
) -> Flow[Step, codec.Json]:
    """`carried`: the entry is part of
    the caller's transaction, which undoes it by itself when the effect fails."""
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
        # Broken off or failed: whether it has acted is not known, so the next turn is told of this one.
        if not carried:
            yield from _give_up(lease, error, on_error)
        raise
    try:
        outcome = rules.done(value)
    except Exception as error:
        # The effect is done; trying again would do it twice for the same answer.
        yield EndStep(lease, rules.failed(error))
        raise
    yield EndStep(lease, outcome)
    return rules.answer(outcome)


def _give_up(lease: EntryLease, error: BaseException, on_error: ErrorPolicy) -> Flow[Step, None]:
    """Writes down the failure, or that there is none to keep. What goes wrong with that does not take the
    place of what went wrong first, unless it is the caller's own policy."""
    outcome, wrong = None, None
    if isinstance(error, Exception):
        try:
            outcome = _kept(error, on_error)
        except BaseException as raised:  # Raised below: the end comes first.
            wrong = raised
    try:
        yield EndStep(lease, outcome)
    except Exception as later:
        error.add_note(
            f"the end of {lease.entry_key} was not written: {later!r}; its lease has to run out"
        )
    if wrong is not None:
        raise wrong from error


def _kept(error: Exception, on_error: ErrorPolicy) -> Outcome | None:
    policy = on_error if isinstance(on_error, OnError) else on_error(error)
    return rules.failed(error) if policy is OnError.KEEP else None


def begin() -> Flow[Step, EntryVerdict]:
    """A turn that the caller ends by itself. One that is interrupted meanwhile has none: it is given back."""
    verdict: EntryVerdict = yield BeginStep()
    if isinstance(verdict, Start):
        try:
            yield WaitStep(0.0)
        except BaseException as error:
            yield from _give_up(verdict.lease, error, OnError.FORGET)
            raise
    return verdict
