"""What a ledger of idempotent calls decides: run, answer again, wait, or refuse.

An entry is kept under (scope, operation, key) and says which request it belongs to (fingerprint), who runs
its effect until when (owner, lease, fence), and how it ended (outcome).
Promises: of all callers with one key at most one is told to run at a time; whoever was taken over has an
older fence; an answer of null is an answer. Never: reads a clock or a store.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, TypeAlias

import msgspec

from holdfast.core import codec, failure as failures
from holdfast.core.check import check_name
from holdfast.core.submit import PAYLOAD_BYTES_MAX, RESULT_BYTES_MAX, encode_payload
from holdfast.errors import (
    EffectFailed,
    IdempotencyConflict,
    InProgress,
    InvalidInput,
    LeaseLost,
)

STEP_SCOPE: Final = "holdfast.step"
"""The scope of steps of tasks: the key is the task's id, the operation is the step."""


class State(StrEnum):
    IN_PROGRESS = "in-progress"
    """Somebody runs the effect, or died while doing so."""
    DONE = "done"
    FAILED = "failed"
    """The effect failed, and the failure is its answer for good."""
    ABANDONED = "abandoned"
    """The effect failed or was broken off: the same request may try again."""


class EntryKey(msgspec.Struct, frozen=True):
    """Where an entry is kept. `id` is the same in every process and after every crash: hand it to the
    outside, so that the effect can be asked for by it."""

    scope: str
    operation: str
    key: str

    @property
    def id(self) -> str:
        return codec.digest(self.scope, self.operation, self.key)

    def __str__(self) -> str:
        return f"{self.operation} '{self.key}' of {self.scope}"


class Runner(msgspec.Struct, frozen=True):
    """The claim of a task under which a step runs. Its fence is the fence of the entry."""

    task_id: str
    fence: int


class EntryRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A call that wants to run, or to be answered."""

    entry_key: EntryKey
    fingerprint: str
    owner: str
    """Different for each call, so that a repeat after a lost reply is told from another caller."""
    lease_seconds: float
    retention_seconds: float | None
    """How long the entry counts after its end; None: as long as the task of the step exists."""
    runner: Runner | None = None


class Entry(msgspec.Struct, frozen=True):
    """What the store holds."""

    entry_key: EntryKey
    fingerprint: str
    state: State
    fence: int
    owner: str
    attempt: int
    begun_at: float
    lease_until: float | None
    ended_at: float | None
    outcome_json: str | None

    @property
    def id(self) -> str:
        return self.entry_key.id


class EntryLease(msgspec.Struct, frozen=True, kw_only=True):
    """The right to run the effect of an entry, until its lease ends."""

    entry_key: EntryKey
    owner: str
    fence: int
    """Rises with each turn of an entry; hand it to outside systems that can compare it."""
    attempt: int
    """Over 1: an earlier turn may have acted. Ask the outside by `id` before acting again."""
    begun_at: float
    lease_seconds: float
    retention_seconds: float | None
    taken_over_from: str | None = None
    """The owner whose lease ran out."""
    runner: Runner | None = None

    @property
    def id(self) -> str:
        return self.entry_key.id


class Done(msgspec.Struct, frozen=True):
    """The effect's answer, as JSON; `null` is one."""

    value_json: str


class Failed(msgspec.Struct, frozen=True):
    """The effect's failure, kept as its answer."""

    error: str
    message: str


Outcome: TypeAlias = Done | Failed


class Start(msgspec.Struct, frozen=True):
    """Run the effect. `seen` is the fence of the entry that is written over."""

    lease: EntryLease
    seen: int | None = None


class Answered(msgspec.Struct, frozen=True):
    """The effect has run: this is how it ended."""

    entry: Entry
    outcome: Outcome


class Busy(msgspec.Struct, frozen=True):
    """Another caller runs it right now."""

    entry: Entry


class Clash(msgspec.Struct, frozen=True):
    """The key belongs to another request."""

    entry: Entry


class Stale(msgspec.Struct, frozen=True):
    """A newer claim of the task has been here, or the call itself has given up: nothing is to be run."""

    entry: Entry


EntryVerdict: TypeAlias = Start | Answered | Busy | Clash | Stale


def begin(seen: Entry | None, ask: EntryRequest, now: float) -> EntryVerdict:
    """What a call is told, given what the store holds."""
    if seen is None:
        return Start(_turn(ask, now, fence=_fence(ask, 0, now), attempt=1))
    if seen.fingerprint != ask.fingerprint:
        return Clash(seen)
    if seen.outcome_json is not None:
        return Answered(seen, outcome_of(seen.state, seen.outcome_json))
    if ask.runner is not None and seen.fence > ask.runner.fence:
        return Stale(seen)
    if seen.state is State.IN_PROGRESS and seen.owner == ask.owner:
        # Its own beginning, whose answer was lost.
        mine = _turn(ask, seen.begun_at, fence=seen.fence, attempt=seen.attempt)
        return Start(mine, seen.fence)
    if seen.state is State.ABANDONED and seen.owner == ask.owner:
        # Its beginning once more, on its way for so long that the call has given up since: nobody runs it.
        return Stale(seen)
    if is_held(seen, ask, now):
        return Busy(seen)
    over = seen.owner if seen.state is State.IN_PROGRESS else None
    fence = _fence(ask, seen.fence, now)
    lease = _turn(ask, now, fence=fence, attempt=seen.attempt + 1, over=over)
    return Start(lease, seen.fence)


def unseen(ask: EntryRequest, now: float) -> Busy:
    """The verdict where the entry is in a transaction that is not committed yet."""
    owner = "a caller whose transaction is open"
    entry = Entry(
        ask.entry_key, ask.fingerprint, State.IN_PROGRESS, 0, owner, 1, now, None, None, None
    )
    return Busy(entry)


def is_held(seen: Entry, ask: EntryRequest, now: float) -> bool:
    """Whether somebody else may still act on the entry. A step is held by a claim of its task: a newer
    claim proves that the older one is over, whatever its lease says."""
    if seen.state is not State.IN_PROGRESS:
        return False
    if ask.runner is not None:
        return seen.fence >= ask.runner.fence
    return seen.lease_until is not None and seen.lease_until > now


def is_echo(found: Entry | None, lease: EntryLease, state: State, outcome_json: str | None) -> bool:
    """Whether the end of this turn was written before: its answer was lost, and it is said again."""
    return (
        found is not None
        and (found.fence, found.owner) == (lease.fence, lease.owner)
        and (found.state, found.outcome_json) == (state, outcome_json)
    )


def _fence(ask: EntryRequest, seen: int, now: float) -> int:
    """Over every fence before it, even of an entry that has been pruned since: milliseconds help."""
    return ask.runner.fence if ask.runner is not None else max(seen + 1, int(now * 1000))


def _turn(
    ask: EntryRequest, now: float, *, fence: int, attempt: int, over: str | None = None
) -> EntryLease:
    return EntryLease(
        entry_key=ask.entry_key,
        owner=ask.owner,
        fence=fence,
        attempt=attempt,
        begun_at=now,
        lease_seconds=ask.lease_seconds,
        retention_seconds=ask.retention_seconds,
        taken_over_from=over,
        runner=ask.runner,
    )


def started(verdict: EntryVerdict) -> EntryLease:
    """The turn, or the error that the verdict amounts to."""
    match verdict:
        case Start(lease=lease):
            return lease
        case Clash(entry=entry):
            raise IdempotencyConflict(
                f"{entry.entry_key} was used with another request: repeat the same one, or take a new key"
            )
        case Busy(entry=entry):
            raise InProgress(
                f"{entry.entry_key} is run by {entry.owner} right now: try again for its answer",
                owner=entry.owner,
                since=entry.begun_at,
                lease_until=entry.lease_until,
            )
        case Stale(entry=entry):
            raise LeaseLost(
                f"{entry.entry_key} is not for this caller to run any more: a newer claim of the task has "
                "begun it, or the call was given up"
            )
        case Answered():
            raise AssertionError("a replay is answered, not started")


# -- values ------------------------------------------------------------------------------------------


def entry_key(scope: str, operation: str, key: str) -> EntryKey:
    """A checked place of a caller's own."""
    check_name("scope", scope)
    check_name("operation", operation)
    check_name("key", key)
    if scope.startswith("holdfast."):
        raise InvalidInput(f"scope '{scope}' is one of holdfast's own: choose another name")
    return EntryKey(scope, operation, key)


def step_key(task_id: str, step: str) -> EntryKey:
    """Where the step of a task is kept."""
    check_name("step", step)
    return EntryKey(STEP_SCOPE, step, task_id)


def fingerprint_of(request: object) -> str:
    """What makes two requests the same: their canonical JSON."""
    return codec.digest(encode_payload(request, what="request", limit=PAYLOAD_BYTES_MAX))


def done(value: object) -> Done:
    """The answer to keep; a typed error when it cannot be."""
    return Done(encode_payload(value, what="answer", limit=RESULT_BYTES_MAX))


def failed(error: BaseException) -> Failed:
    """The failure to keep."""
    message = failures.storable(str(error))[: failures.MESSAGE_CHARS_MAX]
    return Failed(type(error).__qualname__, message)


def state_of(outcome: Outcome) -> State:
    return State.DONE if isinstance(outcome, Done) else State.FAILED


def outcome_json(outcome: Outcome) -> str:
    """As the store keeps it; what it is, the state says."""
    if isinstance(outcome, Done):
        return outcome.value_json
    return codec.dumps({"error": outcome.error, "message": outcome.message})


def outcome_of(state: State, text: str) -> Outcome:
    if state is State.DONE:
        return Done(text)
    kept = codec.loads_object(text)
    return Failed(kept["error"], kept["message"])


def answer(outcome: Outcome) -> codec.Json:
    """The value, or the failure as an error."""
    match outcome:
        case Done(value_json):
            return codec.loads(value_json)
        case Failed(error, message):
            raise EffectFailed(
                f"the effect failed before with {error}: {message}; this failure was kept as its answer"
            )
