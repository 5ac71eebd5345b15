"""The rules of a ledger of idempotent calls: run, answer from the entry, wait, or refuse.

An entry is stored under (scope, operation, key). It has the fingerprint of its request, the owner, lease
and fence of the call that runs the effect, and the outcome.
Promises: at most one caller with a key may run the effect at a time; a takeover raises the fence; an
answer of null is an answer. Never: reads a clock or a store.
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
"""The scope of the steps of tasks. The key is the task id, the operation is the step."""


class State(StrEnum):
    IN_PROGRESS = "in-progress"
    """A call runs the effect, or its process died while it ran."""
    DONE = "done"
    FAILED = "failed"
    """The effect failed, and the failure is its permanent answer."""
    ABANDONED = "abandoned"
    """The effect failed or was interrupted: the same request may try again."""


class EntryKey(msgspec.Struct, frozen=True):
    """The key of an entry. `id` is the same in every process and after every crash. Pass it to outside
    systems, so that they can be asked whether the effect happened."""

    scope: str
    operation: str
    key: str

    @property
    def id(self) -> str:
        return codec.digest(self.scope, self.operation, self.key)

    def __str__(self) -> str:
        return f"{self.operation} '{self.key}' of {self.scope}"


class Runner(msgspec.Struct, frozen=True):
    """The run of a task that a step belongs to. Its fence is the fence of the entry."""

    task_id: str
    fence: int


class EntryRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The request of a call for an entry: to run the effect, or to get its answer."""

    entry_key: EntryKey
    fingerprint: str
    owner: str
    """Unique to each call. It separates a repeat after a lost reply from another caller."""
    lease_seconds: float
    retention_seconds: float | None
    """How long the entry is kept after its end. None: as long as the task of the step exists."""
    runner: Runner | None = None


class Entry(msgspec.Struct, frozen=True):
    """An entry as it is stored."""

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
    """The right to run the effect of an entry, for a limited time."""

    entry_key: EntryKey
    owner: str
    fence: int
    """Rises with each lease of an entry. Pass it to outside systems that compare fences."""
    attempt: int
    """Above 1, an earlier attempt may have acted. Ask the outside system by `id` before acting again."""
    begun_at: float
    lease_seconds: float
    retention_seconds: float | None
    taken_over_from: str | None = None
    """The previous owner, whose lease expired."""
    runner: Runner | None = None

    @property
    def id(self) -> str:
        return self.entry_key.id


class Done(msgspec.Struct, frozen=True):
    """The answer of the effect as JSON. `null` is an answer."""

    value_json: str


class Failed(msgspec.Struct, frozen=True):
    """The failure of the effect, stored as its answer."""

    error: str
    message: str


Outcome: TypeAlias = Done | Failed


class Start(msgspec.Struct, frozen=True):
    """Run the effect. `replaced_fence` is the fence of the entry that is overwritten."""

    lease: EntryLease
    replaced_fence: int | None = None


class Answered(msgspec.Struct, frozen=True):
    """The effect has run before, with this outcome."""

    entry: Entry
    outcome: Outcome


class Busy(msgspec.Struct, frozen=True):
    """Another caller runs the effect now."""

    entry: Entry


class Clash(msgspec.Struct, frozen=True):
    """The key belongs to another request."""

    entry: Entry


class Stale(msgspec.Struct, frozen=True):
    """Do not run the effect: a newer run of the task has the entry, or the call was given up."""

    entry: Entry


EntryVerdict: TypeAlias = Start | Answered | Busy | Clash | Stale


def begin(entry: Entry | None, request: EntryRequest, now: float) -> EntryVerdict:
    """Rules on a request, given the stored entry."""
    if entry is None:
        return Start(_lease(request, now, fence=_fence(request, 0, now), attempt=1))
    if entry.fingerprint != request.fingerprint:
        return Clash(entry)
    if entry.outcome_json is not None:
        return Answered(entry, outcome_of(entry.state, entry.outcome_json))
    if request.runner is not None and entry.fence > request.runner.fence:
        return Stale(entry)
    if entry.state is State.IN_PROGRESS and entry.owner == request.owner:
        # A repeat: the reply to the first request was lost.
        lease = _lease(request, entry.begun_at, fence=entry.fence, attempt=entry.attempt)
        return Start(lease, entry.fence)
    if entry.state is State.ABANDONED and entry.owner == request.owner:
        # A delayed copy of a request whose call was given up since: no caller would run the effect.
        return Stale(entry)
    if is_held(entry, request, now):
        return Busy(entry)
    previous_owner = entry.owner if entry.state is State.IN_PROGRESS else None
    fence = _fence(request, entry.fence, now)
    lease = _lease(
        request, now, fence=fence, attempt=entry.attempt + 1, previous_owner=previous_owner
    )
    return Start(lease, entry.fence)


def uncommitted(request: EntryRequest, now: float) -> Busy:
    """The verdict when another transaction has inserted the entry and is not committed yet."""
    owner = "a caller whose transaction is open"
    entry = Entry(
        request.entry_key,
        request.fingerprint,
        State.IN_PROGRESS,
        0,
        owner,
        1,
        now,
        None,
        None,
        None,
    )
    return Busy(entry)


def is_held(entry: Entry, request: EntryRequest, now: float) -> bool:
    """Whether another caller may still run the effect. A step is held by a run of its task: a newer run
    proves that the older one is over, whatever its lease says."""
    if entry.state is not State.IN_PROGRESS:
        return False
    if request.runner is not None:
        return entry.fence >= request.runner.fence
    return entry.lease_until is not None and entry.lease_until > now


def is_repeat(
    entry: Entry | None, lease: EntryLease, state: State, outcome_json: str | None
) -> bool:
    """Whether this end of the lease was written before, and the reply was lost."""
    return (
        entry is not None
        and (entry.fence, entry.owner) == (lease.fence, lease.owner)
        and (entry.state, entry.outcome_json) == (state, outcome_json)
    )


def _fence(request: EntryRequest, previous: int, now: float) -> int:
    """A fence above all earlier ones. It starts at the time in milliseconds, so that it is also above the
    fences of an entry that was pruned."""
    return (
        request.runner.fence if request.runner is not None else max(previous + 1, int(now * 1000))
    )


def _lease(
    request: EntryRequest,
    now: float,
    *,
    fence: int,
    attempt: int,
    previous_owner: str | None = None,
) -> EntryLease:
    return EntryLease(
        entry_key=request.entry_key,
        owner=request.owner,
        fence=fence,
        attempt=attempt,
        begun_at=now,
        lease_seconds=request.lease_seconds,
        retention_seconds=request.retention_seconds,
        taken_over_from=previous_owner,
        runner=request.runner,
    )


def started(verdict: EntryVerdict) -> EntryLease:
    """The lease, or the error for any other verdict."""
    match verdict:
        case Start(lease=lease):
            return lease
        case Clash(entry=entry):
            raise IdempotencyConflict(
                f"{entry.entry_key} was used with another request: repeat the same request, or use a new key"
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
                f"this call may not run {entry.entry_key} any more: a newer run of the task has started it, "
                "or the call was given up"
            )
        case Answered():
            raise AssertionError("an answered entry is not started again")


# -- values ------------------------------------------------------------------------------------------


def entry_key(scope: str, operation: str, key: str) -> EntryKey:
    """The key of a caller's entry, validated."""
    check_name("scope", scope)
    check_name("operation", operation)
    check_name("key", key)
    if scope.startswith("holdfast."):
        raise InvalidInput(f"scope '{scope}' is reserved for holdfast: choose another name")
    return EntryKey(scope, operation, key)


def step_key(task_id: str, step: str) -> EntryKey:
    """The key of a task's step."""
    check_name("step", step)
    return EntryKey(STEP_SCOPE, step, task_id)


def fingerprint_of(request: object) -> str:
    """A hash of the request's canonical JSON. Two requests with the same hash are the same request."""
    return codec.digest(encode_payload(request, what="request", limit=PAYLOAD_BYTES_MAX))


def done(value: object) -> Done:
    """The answer to store. UnserialisablePayload or PayloadTooLarge when it cannot be stored."""
    return Done(encode_payload(value, what="answer", limit=RESULT_BYTES_MAX))


def failed(error: BaseException) -> Failed:
    """The failure to store."""
    message = failures.storable(str(error))[: failures.MESSAGE_CHARS_MAX]
    return Failed(type(error).__qualname__, message)


def state_of(outcome: Outcome) -> State:
    return State.DONE if isinstance(outcome, Done) else State.FAILED


def outcome_json(outcome: Outcome) -> str:
    """The outcome as it is stored. The state of the entry says which kind it is."""
    if isinstance(outcome, Done):
        return outcome.value_json
    return codec.dumps({"error": outcome.error, "message": outcome.message})


def outcome_of(state: State, text: str) -> Outcome:
    if state is State.DONE:
        return Done(text)
    failure = codec.loads_object(text)
    return Failed(failure["error"], failure["message"])


def answer(outcome: Outcome) -> codec.Json:
    """The value, or the failure as an error."""
    match outcome:
        case Done(value_json):
            return codec.loads(value_json)
        case Failed(error, message):
            raise EffectFailed(
                f"the effect failed before with {error}: {message}; this failure is its stored answer"
            )
