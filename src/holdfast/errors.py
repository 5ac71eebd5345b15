"""Every error that Holdfast raises, as one tree.

    HoldfastError
    ├─ InvalidInput            the caller must change the request
    │  ├─ UnknownType          no node has registered a handler for the type
    │  ├─ UnknownPriority
    │  ├─ UnserialisablePayload
    │  ├─ PayloadTooLarge
    │  ├─ BatchTooLarge
    │  ├─ UnknownDependency
    │  ├─ DependencyCycle
    │  ├─ BadConfig
    │  ├─ InvalidOrder         not an order: its money, symbol or key
    │  └─ BadCommand           a command to the key-value store that Redis refuses as it is written
    │     ├─ NotAnInteger      a number or the value to count with is not one, or over 64 bits
    │     ├─ NotAFloat
    │     ├─ Overflow          a counter would leave 64 bits
    │     └─ NotText           a word that is not text, or that UTF-8 cannot carry
    ├─ NotFound                no such task, queue, schedule ...
    │  └─ UnknownOrder
    ├─ Conflict                the state has moved on, or was never as assumed
    │  ├─ DuplicateTask        the id is taken by another request
    │  ├─ IdempotencyConflict  the key was used with another body
    │  ├─ InProgress           another caller runs the same request right now; retryable
    │  ├─ IllegalTransition    the state machine forbids it
    │  ├─ WrongType            the key holds another kind of value
    │  ├─ FeedReset            the feed cannot go on from this position: read the state again
    │  ├─ WatchFailed          a watched key changed before the transaction ended
    │  ├─ LeaseLost            a newer fence exists; this runner's writes change nothing
    │  ├─ OverFill             more was filled than was ordered
    │  ├─ VersionConflict      another caller changed it first
    │  ├─ ConcurrentModification  another process holds the lock of what was to be changed; retryable
    │  ├─ TaskAlreadyAssigned  another worker has the task
    │  ├─ OrdersFrozen         nothing may be placed in this freeze epoch
    │  ├─ StateLocked          another process works on the state directory
    │  ├─ StateBehind          the state directory is older than the Redis it is used with
    │  ├─ RiskRefused          the order would break a limit of the risk monitor
    │  └─ NotReconciled        orders from before the restart are not settled with the exchange yet
    ├─ QueueFull               backpressure: try later
    ├─ QueueStopping           the queue takes no new work
    ├─ NotRunning              the queue was not started
    ├─ WrongLoop               what was asked for lives in another event loop of this process
    ├─ TaskFailed              `result()` of a task that ended without one
    ├─ EffectFailed            the call ran before, and its failure is its stored answer
    ├─ WaitTimeout             waited as long as was asked
    ├─ StoreUnavailable        the store cannot be reached; retryable
    │  ├─ StoreBusy
    │  ├─ DiskFull             nothing was written; free some space
    │  └─ StoreFailed          what is on the disk is not known: open the store again
    ├─ CorruptState            durable state is damaged and cannot be trusted
    │  ├─ CorruptLog
    │  └─ CorruptSnapshot
    ├─ ExchangeTimeout         no reply of the exchange: the request may have arrived, or not
    │  └─ ExchangeFailed       the exchange's adapter raised: what its call did is not known
    ├─ SchemaMismatch          the store belongs to another version of Holdfast
    ├─ MissingExtra            an optional dependency is not installed
    ├─ NotSupported            Holdfast does not do this, on purpose
    └─ EngineFailed            a part of the engine died more often than its budget allows

Each class has a stable `code`; `outcomes.OUTCOMES` is the one table from codes to HTTP status, gRPC status
and exit code. A message says what happened, why, and what to do.
"""

from __future__ import annotations

from typing import ClassVar


class HoldfastError(Exception):
    """Base of all errors of Holdfast."""

    code: ClassVar[str] = "internal"
    retryable: ClassVar[bool] = False


class InvalidInput(HoldfastError):
    code = "invalid-input"


class UnknownType(InvalidInput):
    code = "unknown-type"


class UnknownPriority(InvalidInput):
    code = "unknown-priority"


class UnserialisablePayload(InvalidInput):
    code = "unserialisable-payload"


class PayloadTooLarge(InvalidInput):
    code = "payload-too-large"


class BatchTooLarge(InvalidInput):
    code = "batch-too-large"


class UnknownDependency(InvalidInput):
    code = "unknown-dependency"


class DependencyCycle(InvalidInput):
    code = "dependency-cycle"


class BadConfig(InvalidInput):
    code = "bad-config"


class InvalidOrder(InvalidInput):
    code = "invalid-order"


class BadCommand(InvalidInput):
    code = "bad-command"


class NotAnInteger(BadCommand):
    code = "not-an-integer"


class NotAFloat(BadCommand):
    code = "not-a-float"


class Overflow(BadCommand):
    code = "overflow"


class NotText(BadCommand):
    code = "not-text"


class NotFound(HoldfastError):
    code = "not-found"


class UnknownOrder(NotFound):
    code = "unknown-order"


class Conflict(HoldfastError):
    code = "conflict"


class DuplicateTask(Conflict):
    code = "duplicate-task"


class IdempotencyConflict(Conflict):
    code = "idempotency-conflict"


class InProgress(Conflict):
    """Says who runs the request, since when, and until when it is theirs."""

    code = "in-progress"
    retryable = True

    def __init__(
        self,
        message: str,
        *,
        owner: str = "",
        since: float = 0.0,
        lease_until: float | None = None,
    ) -> None:
        super().__init__(message)
        self.owner = owner
        self.since = since
        self.lease_until = lease_until


class IllegalTransition(Conflict):
    code = "illegal-transition"


class WrongType(Conflict):
    code = "wrong-type"


class FeedReset(Conflict):
    """`reason` is `pruned`, `epoch` or `ahead`; the feed can be read from `oldest` or `head` on."""

    code = "feed-reset"

    def __init__(self, reason: str, oldest: str = "", head: str = "") -> None:
        what = f"the feed cannot go on from that position ({reason})"
        super().__init__(f"{what}: read the state again, then go on from {head or 'its head'}")
        self.reason, self.oldest, self.head = reason, oldest, head


class WatchFailed(Conflict):
    code = "watch-failed"
    retryable = True


class LeaseLost(Conflict):
    code = "lease-lost"


class OverFill(Conflict):
    code = "over-fill"


class VersionConflict(Conflict):
    code = "version-conflict"


class ConcurrentModification(Conflict):
    code = "concurrent-modification"
    retryable = True


class TaskAlreadyAssigned(Conflict):
    code = "task-already-assigned"


class OrdersFrozen(Conflict):
    code = "orders-frozen"


class StateLocked(Conflict):
    code = "state-locked"


class StateBehind(Conflict):
    code = "state-behind"


class RiskRefused(Conflict):
    code = "risk-refused"


class NotReconciled(Conflict):
    code = "not-reconciled"


class QueueFull(HoldfastError):
    code = "queue-full"
    retryable = True


class QueueStopping(HoldfastError):
    code = "queue-stopping"
    retryable = True


class NotRunning(HoldfastError):
    code = "not-running"


class WrongLoop(HoldfastError):
    code = "wrong-loop"


class TaskFailed(HoldfastError):
    code = "task-failed"


class EffectFailed(HoldfastError):
    code = "effect-failed"


class WaitTimeout(HoldfastError):
    code = "wait-timeout"
    retryable = True


class StoreUnavailable(HoldfastError):
    code = "store-unavailable"
    retryable = True


class StoreBusy(StoreUnavailable):
    code = "store-busy"


class DiskFull(StoreUnavailable):
    code = "disk-full"


class StoreFailed(StoreUnavailable):
    code = "store-failed"
    retryable = False


class CorruptState(HoldfastError):
    code = "corrupt-state"


class CorruptLog(CorruptState):
    code = "corrupt-log"


class CorruptSnapshot(CorruptState):
    code = "corrupt-snapshot"


class ExchangeTimeout(HoldfastError):
    code = "exchange-timeout"
    retryable = True


class ExchangeFailed(ExchangeTimeout):
    code = "exchange-failed"


class SchemaMismatch(HoldfastError):
    code = "schema-mismatch"


class MissingExtra(HoldfastError):
    code = "missing-extra"


class NotSupported(HoldfastError):
    code = "not-supported"


class EngineFailed(HoldfastError):
    code = "engine-failed"
