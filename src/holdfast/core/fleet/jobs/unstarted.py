"""How an execution ends that never started: its kind, and why, in one line.

Promises: one rule, whichever transaction ends it: an offer that comes too late, a step of the rollout or the
end of a block. Never: I/O, clocks.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from holdfast.core.fleet.model import JOB_ENDED, ApprovalState, Execution, Job
from holdfast.core.fleet.rollout.state import Halt, HaltCause
from holdfast.core.fleet.status import ExecutionKind
from holdfast.core.task import Status, Task

_halt: Final = msgspec.json.Decoder(Halt)


class UnstartedEnd(NamedTuple):
    """The end of an execution that never started."""

    kind: ExecutionKind
    detail: str


REJECTED: Final = UnstartedEnd(ExecutionKind.REJECTED, "the job was rejected")
UNAPPROVED: Final = UnstartedEnd(ExecutionKind.EXPIRED, "the job was not approved in time")
HELD_TOO_LONG: Final = UnstartedEnd(
    ExecutionKind.EXPIRED, "a block held it until its time was over"
)
NOT_REACHED: Final = UnstartedEnd(
    ExecutionKind.EXPIRED, "the rollout had not come to this host when the time of the job was over"
)
NOT_TAKEN: Final = UnstartedEnd(
    ExecutionKind.TIMEOUT_DELIVERY, "the host did not take it up in time: it never started"
)
REMOVED: Final = UnstartedEnd(ExecutionKind.UNDELIVERABLE, "the host was removed")
OTHER_MACHINE: Final = UnstartedEnd(
    ExecutionKind.UNDELIVERABLE,
    "the host was removed and added again since the job was made: it may be another machine",
)
_BY_CAUSE: Final = {
    HaltCause.BUDGET: ExecutionKind.SKIPPED,
    HaltCause.OPERATOR: ExecutionKind.CANCELLED_BEFORE_START,
    HaltCause.REJECTED: ExecutionKind.REJECTED,
    HaltCause.REFUSED: ExecutionKind.REFUSED,
}


def halt_of(job: Job) -> Halt | None:
    """The halt or pause of a job, as its row has it."""
    return None if job.halt_json is None else _halt.decode(job.halt_json)


def halts(before: Job, halt: Halt | None) -> bool:
    """Whether a job that was so is halted or paused by this."""
    if halt is None:
        return False
    known = halt_of(before)
    return known is None or (halt.is_final and not known.is_final)


def unstarted_end(job: Job, execution: Execution, task: Task, now: float) -> UnstartedEnd | None:
    """How an execution without a go ends now. None: it may still start. A halt comes first, then what people
    decided, then the time of the job."""
    halt = halt_of(job)
    if halt is not None and halt.is_final and halt.cause is not HaltCause.EXPIRED:
        return UnstartedEnd(_BY_CAUSE[halt.cause], halt.reason or "the job was halted")
    match job.approval_state:
        case ApprovalState.REJECTED:
            return REJECTED
        case ApprovalState.EXPIRED:
            return UNAPPROVED
        case _:
            pass
    if now >= job.not_after or (halt is not None and halt.is_final):
        return _too_late(execution, task)
    if job.status in JOB_ENDED:
        return UnstartedEnd(ExecutionKind.SKIPPED, f"the job is {job.status}")
    return None


def _too_late(execution: Execution, task: Task) -> UnstartedEnd:
    if execution.block_id is not None:
        return HELD_TOO_LONG
    return NOT_REACHED if task.status is Status.BLOCKED else NOT_TAKEN
