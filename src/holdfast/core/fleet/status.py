"""How the status of an execution is shown: the seed status, the fine kind, and why, in one line.

The truth is the task. Its status, the phase of its run and its failure give most of it; of an execution that
ended without a run, `outcome` gives the kind. `KINDS` is the table: every kind belongs to one seed status
and, if it is an end, to one bucket of the rollout. Promises: every combination has a kind; a shown status
never goes back, except that a retry leads from RUNNING to QUEUED. Never: I/O, clocks.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from holdfast.core.fleet.hosts.service import HostService
from holdfast.core.fleet.model import ApprovalState, Execution, Job
from holdfast.core.gate import is_of_block
from holdfast.core.start_once import RunPhase, phase_of
from holdfast.core.task import ENDED, LEASED, FailureKind, Status, Task


class ExecutionStatus(StrEnum):
    """The status of an execution, as the seed names it."""

    NEW = "NEW"
    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    SUCCESS = "SUCCESS"
    FAILED = "FAILED"
    TIMEOUT = "TIMEOUT"
    BLOCKED = "BLOCKED"
    CANCELLED = "CANCELLED"


class Bucket(StrEnum):
    """How the rollout counts an ended execution."""

    SUCCESS = "success"
    FAILED = "failed"
    TIMEOUT = "timeout"
    LOST = "lost"
    UNREACHABLE = "unreachable"
    BLOCKED = "blocked"
    CANCELLED = "cancelled"


class ExecutionKind(StrEnum):
    """The fine kind of a status. New kinds may be added."""

    NEW = "new"
    AWAITING_APPROVAL = "awaiting_approval"
    AWAITING_WAVE = "awaiting_wave"
    QUEUED = "queued"
    HOST_BUSY = "host_busy"
    HOST_UNREACHABLE = "host_unreachable"
    HOST_CLOSED = "host_closed"
    """It answers and takes nothing new."""
    AWAITING_TURN = "awaiting_turn"
    """It had left the window of the rollout, and waits until it is let in again."""
    HELD = "held"
    """An operator or a node holds it."""
    OFFERED = "offered"
    ACCEPTED = "accepted"
    HELD_BY_BLOCK = "held_by_block"
    STARTING = "starting"
    RUNNING = "running"
    UNKNOWN = "unknown"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    LOST = "lost"
    UNDELIVERABLE = "undeliverable"
    REFUSED = "refused"
    TIMEOUT_DELIVERY = "timeout_delivery"
    TIMEOUT_EXEC = "timeout_exec"
    EXPIRED = "expired"
    BLOCKED = "blocked"
    CANCELLED_BEFORE_START = "cancelled_before_start"
    CANCELLED_KILLED = "cancelled_killed"
    CANCELLED_UNCONFIRMED = "cancelled_unconfirmed"
    SKIPPED = "skipped"
    REJECTED = "rejected"


class KindRow(msgspec.Struct, frozen=True):
    """A row of the table."""

    status: ExecutionStatus
    reason: str
    """Why, if the execution itself does not say it."""
    bucket: Bucket | None = None
    """None: it has not ended."""
    tasks: frozenset[Status] = frozenset()
    """The statuses of a task whose execution may name this kind as its outcome."""


K = ExecutionKind
E = ExecutionStatus
B = Bucket
_RUN: Final = frozenset({Status.FAILED})
_NO_RUN: Final = frozenset({Status.ABORTED})
_ANY: Final = _RUN | _NO_RUN
KINDS: Final[dict[ExecutionKind, KindRow]] = {
    K.NEW: KindRow(E.NEW, "the job has not started"),
    K.AWAITING_APPROVAL: KindRow(E.NEW, "the job waits for an approval"),
    K.AWAITING_WAVE: KindRow(E.NEW, "the rollout has not come to this host"),
    K.QUEUED: KindRow(E.QUEUED, "waits for the host to take it up"),
    K.HOST_BUSY: KindRow(E.QUEUED, "the host runs another command"),
    K.HOST_UNREACHABLE: KindRow(E.QUEUED, "the host is not reachable"),
    K.HOST_CLOSED: KindRow(
        E.QUEUED, "the host takes nothing new: it is cordoned, or its agent drains, updates or is full"
    ),
    K.AWAITING_TURN: KindRow(E.QUEUED, "the host is back, and waits for its turn"),
    K.HELD: KindRow(E.QUEUED, "it is held"),
    K.OFFERED: KindRow(E.QUEUED, "offered to the host"),
    K.ACCEPTED: KindRow(E.QUEUED, "accepted by the host, which waits for its go"),
    K.HELD_BY_BLOCK: KindRow(E.BLOCKED, "a block holds it"),
    K.STARTING: KindRow(E.RUNNING, "the host got its go"),
    K.RUNNING: KindRow(E.RUNNING, "the command runs"),
    K.UNKNOWN: KindRow(
        E.RUNNING, "the host stopped answering after its go: the outcome is unknown"
    ),
    K.SUCCEEDED: KindRow(E.SUCCESS, "the command succeeded", B.SUCCESS),
    K.FAILED: KindRow(E.FAILED, "the command failed", B.FAILED, _ANY),
    K.LOST: KindRow(
        E.FAILED, "the host did not answer after its go: it may have run", B.LOST, _ANY
    ),
    K.UNDELIVERABLE: KindRow(
        E.FAILED, "it could not be delivered to the host", B.UNREACHABLE, _ANY
    ),
    K.REFUSED: KindRow(E.FAILED, "the agent of the host refused it", B.FAILED, _ANY),
    K.TIMEOUT_DELIVERY: KindRow(
        E.TIMEOUT, "the host did not take it up in time: it never started", B.UNREACHABLE, _ANY
    ),
    K.TIMEOUT_EXEC: KindRow(E.TIMEOUT, "the command ran too long", B.TIMEOUT, _ANY),
    K.EXPIRED: KindRow(
        E.TIMEOUT, "it had not started when its time was over", B.UNREACHABLE, _NO_RUN
    ),
    K.BLOCKED: KindRow(E.BLOCKED, "a block keeps it off the host", B.BLOCKED, _NO_RUN),
    K.CANCELLED_BEFORE_START: KindRow(
        E.CANCELLED, "cancelled: it never started", B.CANCELLED, _NO_RUN
    ),
    K.CANCELLED_KILLED: KindRow(
        E.CANCELLED, "cancelled: the host has ended the command", B.CANCELLED, _NO_RUN
    ),
    K.CANCELLED_UNCONFIRMED: KindRow(
        E.CANCELLED, "cancelled: the host has not confirmed that the command ended",
        B.CANCELLED, _NO_RUN,
    ),
    K.SKIPPED: KindRow(E.CANCELLED, "the job was halted before this host", B.CANCELLED, _NO_RUN),
    K.REJECTED: KindRow(E.CANCELLED, "the job was rejected", B.CANCELLED, _NO_RUN),
}  # fmt: skip
BY_PHASE: Final = {
    RunPhase.OFFERED: K.OFFERED,
    RunPhase.ACCEPTED: K.ACCEPTED,
    RunPhase.GO: K.STARTING,
    RunPhase.STARTED: K.RUNNING,
}
BY_FAILURE: Final = {
    FailureKind.ERROR: K.FAILED,
    FailureKind.TIMEOUT: K.TIMEOUT_EXEC,
    FailureKind.LOST: K.LOST,
    FailureKind.DEPENDENCY: K.FAILED,
    FailureKind.REJECTED: K.FAILED,
}
BY_SERVICE: Final = {HostService.SILENT: K.HOST_UNREACHABLE, HostService.CLOSED: K.HOST_CLOSED}
ENDED_KINDS: Final = frozenset(kind for kind, row in KINDS.items() if row.bucket is not None)


class ExecutionFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What the status of an execution follows from."""

    task_status: Status
    phase: RunPhase = RunPhase.OFFERED
    failure_kind: FailureKind | None = None
    outcome: str | None = None
    has_go: bool = False
    """Whether the host ever got a go."""
    is_approved: bool = True
    """Whether the job may start, as far as people decide it."""
    is_started: bool = True
    """Whether the job has started."""
    held_by: str | None = None
    service: HostService = HostService.READY
    host_busy: bool = False
    is_away: bool = False
    """Whether it has left the window of the rollout."""


class ShownStatus(msgspec.Struct, frozen=True):
    """What is shown of an execution."""

    status: ExecutionStatus
    kind: ExecutionKind
    reason: str


def kind_of(facts: ExecutionFacts) -> ExecutionKind:
    """The kind, for any combination of facts."""
    match facts.task_status:
        case Status.BLOCKED if not facts.is_approved:
            return K.AWAITING_APPROVAL
        case Status.BLOCKED:
            return K.AWAITING_WAVE if facts.is_started else K.NEW
        case Status.QUEUED:
            return _queued(facts)
        case Status.PAUSED:
            return K.HELD
        case Status.RUNNING:
            return BY_PHASE[facts.phase]
        case Status.STUCK:
            return K.UNKNOWN
        case Status.COMPLETED:
            return K.SUCCEEDED
        case _:
            return _ended(facts)


def _queued(facts: ExecutionFacts) -> ExecutionKind:
    if facts.held_by is not None:
        return K.HELD_BY_BLOCK if is_of_block(facts.held_by) else K.HELD
    if facts.service is not HostService.READY:
        return BY_SERVICE[facts.service]
    if facts.is_away:
        return K.AWAITING_TURN
    return K.HOST_BUSY if facts.host_busy else K.QUEUED


def _ended(facts: ExecutionFacts) -> ExecutionKind:
    """Of a failed or aborted task. An outcome that does not fit it does not count."""
    named = next((kind for kind in K if kind == facts.outcome), None)
    if named is not None and facts.task_status in KINDS[named].tasks:
        return named
    if facts.task_status is Status.FAILED:
        return K.FAILED if facts.failure_kind is None else BY_FAILURE[facts.failure_kind]
    return K.CANCELLED_UNCONFIRMED if facts.has_go else K.CANCELLED_BEFORE_START


def ends_as(task: Task, kind: ExecutionKind, detail: str) -> tuple[ExecutionKind, str]:
    """How an execution that waits ends for this reason: its kind, and why. One whose last attempt failed has
    started, so it ends as that failure."""
    failure = task.failure
    if failure is None or not task.attempts:
        return kind, detail
    return BY_FAILURE[failure.kind], f"{failure.message}; it was not tried again: {detail}"


def facts_of(
    task: Task,
    execution: Execution,
    job: Job,
    *,
    service: HostService = HostService.READY,
    host_busy: bool = False,
) -> ExecutionFacts:
    failure = task.failure if task.status is Status.FAILED else None
    return ExecutionFacts(
        task_status=task.status,
        phase=phase_of(task) if task.status in LEASED else RunPhase.OFFERED,
        failure_kind=None if failure is None else failure.kind,
        outcome=execution.outcome,
        has_go=execution.go_at is not None,
        is_approved=job.approval_state in (ApprovalState.NOT_REQUIRED, ApprovalState.APPROVED),
        is_started=job.started_at is not None,
        held_by=task.held_by if task.status not in ENDED else None,
        service=service,
        host_busy=host_busy,
        is_away=execution.away,
    )


def shown(
    task: Task,
    execution: Execution,
    job: Job,
    *,
    service: HostService = HostService.READY,
    host_busy: bool = False,
) -> ShownStatus:
    """What is shown of an execution. The host counts while it waits: whether it would take something up, and
    whether another execution has its slot."""
    facts = facts_of(task, execution, job, service=service, host_busy=host_busy)
    kind = kind_of(facts)
    return ShownStatus(KINDS[kind].status, kind, _reason(kind, task, execution))


def _reason(kind: ExecutionKind, task: Task, execution: Execution) -> str:
    """The one line: what the execution says, else what the task says, else what the table says."""
    reason = KINDS[kind].reason
    if task.status in ENDED:
        if execution.detail:
            return execution.detail
        if task.status is Status.COMPLETED:
            return reason
        said = task.error if task.status is Status.FAILED else task.held_by
        return reason if said is None else f"{reason}: {said}"
    if task.held_by is not None:
        return f"{reason}: held by {task.held_by}"
    if task.status is Status.QUEUED and task.attempts:
        return f"{reason}; attempt {task.attempts + 1} of {task.max_attempts} after: {task.error}"
    return reason


def bucket(task: Task, execution: Execution) -> Bucket | None:
    """How the rollout counts the execution. None: it has not ended."""
    return end_bucket(ended_kind(task, execution)) if task.status in ENDED else None


def end_bucket(kind: ExecutionKind) -> Bucket:
    """The bucket of the kind of an end."""
    found = KINDS[kind].bucket
    assert found is not None, f"{kind} is no end"
    return found


def ended_kind(task: Task, execution: Execution) -> ExecutionKind:
    """The kind of an execution whose task has ended."""
    return kind_of(
        ExecutionFacts(
            task_status=task.status,
            failure_kind=None if task.failure is None else task.failure.kind,
            outcome=execution.outcome,
            has_go=execution.go_at is not None,
        )
    )


# -- the order ---------------------------------------------------------------------------------------

RANKS: Final = {
    E.NEW: 0,
    E.QUEUED: 1,
    E.RUNNING: 2,
    E.SUCCESS: 3,
    E.FAILED: 3,
    E.TIMEOUT: 3,
    E.CANCELLED: 3,
}


def rank(kind: ExecutionKind) -> int:
    """How far an execution has come. What a block holds is as far as what is queued."""
    if kind is K.HELD_BY_BLOCK:
        return RANKS[E.QUEUED]
    return 3 if kind in ENDED_KINDS else RANKS[KINDS[kind].status]


def may_follow(before: ExecutionKind, after: ExecutionKind) -> bool:
    """Whether a shown kind may follow another: never back, except from RUNNING to QUEUED by a retry."""
    if before in ENDED_KINDS:
        return after in ENDED_KINDS
    return rank(after) >= rank(before) or (rank(before), rank(after)) == (2, 1)
