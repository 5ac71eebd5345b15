"""The errors that every part of Holdfast raises, as one tree.

Errors of a single part are imported from that part: `holdfast.orders.errors`, `holdfast.kv`,
`holdfast.locks`. docs/reference/errors.md is generated from all of them.

Promises: each class has a stable `code`, and its status over HTTP, over gRPC and as an exit code. A
subclass states only what differs from its parent. A message says what happened, why, and what to do.
"""

from __future__ import annotations

from typing import ClassVar, Self

from holdfast.evidence import EndedTask

__all__ = [
    "AlreadyDecided",
    "BadConfig",
    "BatchTooLarge",
    "Conflict",
    "DecisionExpired",
    "DecisionNeeded",
    "DependencyCycle",
    "DiskFull",
    "DuplicateTask",
    "EffectFailed",
    "EngineFailed",
    "FeedReset",
    "HoldfastError",
    "IdempotencyConflict",
    "IllegalTransition",
    "InProgress",
    "InvalidInput",
    "LeaseLost",
    "MissingExtra",
    "MissingPrivilege",
    "NotFound",
    "NotLocked",
    "NotRunning",
    "NotSupported",
    "PayloadTooLarge",
    "QueueFull",
    "QueueStopping",
    "SchemaMismatch",
    "StoreBusy",
    "StoreUnavailable",
    "TaskFailed",
    "UnknownDependency",
    "UnknownPriority",
    "UnknownType",
    "UnserialisablePayload",
    "VersionConflict",
    "WaitTimeout",
    "WrongLoop",
]


class HoldfastError(Exception):
    """Base of all errors of Holdfast."""

    code: ClassVar[str] = "internal"
    retryable: ClassVar[bool] = False
    """Whether the same call may succeed later."""
    http_status: ClassVar[int] = 500
    grpc_status: ClassVar[str] = "INTERNAL"
    exit_code: ClassVar[int] = 1


class InvalidInput(HoldfastError):
    """The caller must change the request."""

    code = "invalid-input"
    http_status = 422
    grpc_status = "INVALID_ARGUMENT"
    exit_code = 2


class UnknownType(InvalidInput):
    """No node has registered a handler for the type."""

    code = "unknown-type"
    grpc_status = "FAILED_PRECONDITION"


class UnknownPriority(InvalidInput):
    """There is no priority with that name."""

    code = "unknown-priority"


class UnserialisablePayload(InvalidInput):
    """The payload cannot be written as JSON."""

    code = "unserialisable-payload"


class PayloadTooLarge(InvalidInput):
    """The payload is larger than a task may carry."""

    code = "payload-too-large"
    http_status = 413


class BatchTooLarge(InvalidInput):
    """The call has more items than the limit."""

    code = "batch-too-large"
    http_status = 413


class UnknownDependency(InvalidInput):
    """A task depends on a task that does not exist."""

    code = "unknown-dependency"
    grpc_status = "FAILED_PRECONDITION"


class DependencyCycle(InvalidInput):
    """Tasks would depend on each other in a cycle."""

    code = "dependency-cycle"


class BadConfig(InvalidInput):
    """A setting, an option or a URL is wrong."""

    code = "bad-config"


class NotFound(HoldfastError):
    """There is no such task, queue, schedule or lock."""

    code = "not-found"
    http_status = 404
    grpc_status = "NOT_FOUND"
    exit_code = 5
    noun: str | None = None
    """What is missing, e.g. "project", where the error knows it."""


class Conflict(HoldfastError):
    """The state has changed, or is not as the caller assumed."""

    code = "conflict"
    http_status = 409
    grpc_status = "ABORTED"
    exit_code = 6


class DuplicateTask(Conflict):
    """The id belongs to another request."""

    code = "duplicate-task"
    grpc_status = "ALREADY_EXISTS"


class IdempotencyConflict(Conflict):
    """The key was used with another request."""

    code = "idempotency-conflict"
    http_status = 422


class InProgress(Conflict):
    """Another caller runs the same request now. The error names it, its start, and the end of its lease."""

    code = "in-progress"
    retryable = True
    exit_code = 10

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
    """The state machine does not allow the transition."""

    code = "illegal-transition"
    grpc_status = "FAILED_PRECONDITION"


class FeedReset(Conflict):
    """The feed cannot continue from this position: read the state again.

    `reason` is `pruned`, `epoch` or `ahead`; the feed can be read from `oldest` or `head` on."""

    code = "feed-reset"
    http_status = 410
    grpc_status = "OUT_OF_RANGE"

    def __init__(self, reason: str, oldest: str = "", head: str = "") -> None:
        what = f"the feed cannot go on from that position ({reason})"
        super().__init__(f"{what}: read the state again, then go on from {head or 'its head'}")
        self.reason, self.oldest, self.head = reason, oldest, head

    def __reduce__(self) -> tuple[type[FeedReset], tuple[str, str, str]]:
        return type(self), (self.reason, self.oldest, self.head)


class LeaseLost(Conflict):
    """A newer fence exists; the writes of this runner have no effect."""

    code = "lease-lost"


class VersionConflict(Conflict):
    """Another caller changed the record first. `current` has its state, where the error knows it."""

    code = "version-conflict"
    current: dict[str, object] | None = None


class NotLocked(Conflict):
    """No runner holds the task."""

    code = "not-locked"
    grpc_status = "FAILED_PRECONDITION"


class AlreadyDecided(Conflict):
    """Another answer, or the deadline, was first. `decision` is the decision as it stands."""

    code = "already-decided"
    grpc_status = "FAILED_PRECONDITION"

    def __init__(self, message: str, *, decision: object = None) -> None:
        super().__init__(message)
        self.decision = decision


class DecisionNeeded(Conflict):
    """The task waits for a decision, which only its answer ends."""

    code = "decision-needed"
    grpc_status = "FAILED_PRECONDITION"
    exit_code = 8


class DecisionExpired(HoldfastError):
    """The deadline of a decision passed without an answer, and it has no default."""

    code = "decision-expired"
    http_status = 424
    grpc_status = "ABORTED"
    exit_code = 8


class QueueFull(HoldfastError):
    """The queue is at its depth limit (backpressure): try later."""

    code = "queue-full"
    retryable = True
    http_status = 429
    grpc_status = "RESOURCE_EXHAUSTED"
    exit_code = 10


class QueueStopping(HoldfastError):
    """The queue is stopping and accepts no new tasks."""

    code = "queue-stopping"
    retryable = True
    http_status = 503
    grpc_status = "UNAVAILABLE"
    exit_code = 10


class NotRunning(HoldfastError):
    """The queue, ledger or store is not started, or is closed."""

    code = "not-running"
    http_status = 503
    grpc_status = "UNAVAILABLE"
    exit_code = 10


class WrongLoop(HoldfastError):
    """The object belongs to another event loop of this process."""

    code = "wrong-loop"


class TaskFailed(HoldfastError):
    """The task of this `result()` call ended without a result. `task` has its evidence."""

    code = "task-failed"
    http_status = 424
    grpc_status = "ABORTED"

    def __init__(self, message: str = "", task: EndedTask | None = None) -> None:
        super().__init__(message)
        self.task = task
        """The task as it ended. None: the error comes from a server."""
        self.task_id = "" if task is None else task.id
        self.task_type = "" if task is None else task.type
        self.status = "" if task is None else str(task.status)
        failure = None if task is None else task.failure
        self.error = "" if failure is None else failure.message
        self.error_type = "" if failure is None else failure.error_type
        """The class of the exception of its handler. Empty: it ended without one."""
        self.traceback = "" if failure is None else failure.traceback


class EffectFailed(HoldfastError):
    """The call ran before, and its failure is its stored answer."""

    code = "effect-failed"
    http_status = 424
    grpc_status = "ABORTED"


class WaitTimeout(HoldfastError):
    """The wait reached the caller's time limit."""

    code = "wait-timeout"
    retryable = True
    http_status = 504
    grpc_status = "DEADLINE_EXCEEDED"
    exit_code = 7

    @classmethod
    def of_task(cls, task_id: str, seconds: float, status: str = "") -> Self:
        """The end of a task was waited for. `status`: what the task is now, if that is known."""
        now = f", and it is {status}" if status else ""
        return cls(
            f"waited {seconds:g} s for task {task_id} to end{now}: wait longer, or ask why it has not ended "
            f"with `holdfast task why {task_id}` or queue.why(task_id)"
        )


class StoreUnavailable(HoldfastError):
    """The store cannot be reached."""

    code = "store-unavailable"
    retryable = True
    http_status = 503
    grpc_status = "UNAVAILABLE"
    exit_code = 10


class StoreBusy(StoreUnavailable):
    """Another writer holds the store."""

    code = "store-busy"


class DiskFull(StoreUnavailable):
    """The disk is full and nothing was written; free some space."""

    code = "disk-full"
    http_status = 507
    grpc_status = "RESOURCE_EXHAUSTED"


class MissingPrivilege(StoreUnavailable):
    """The database role lacks a privilege, which the message names: grant it, or use another role."""

    code = "missing-privilege"
    retryable = False
    grpc_status = "PERMISSION_DENIED"


class SchemaMismatch(HoldfastError):
    """The schema of the store belongs to another version of Holdfast."""

    code = "schema-mismatch"
    grpc_status = "FAILED_PRECONDITION"


class MissingExtra(HoldfastError):
    """An optional dependency is not installed."""

    code = "missing-extra"
    grpc_status = "UNIMPLEMENTED"
    exit_code = 2


class NotSupported(HoldfastError):
    """Holdfast does not support this, by design."""

    code = "not-supported"
    http_status = 501
    grpc_status = "UNIMPLEMENTED"
    exit_code = 2


class EngineFailed(HoldfastError):
    """A part of the engine failed more often than its restart budget allows."""

    code = "engine-failed"
