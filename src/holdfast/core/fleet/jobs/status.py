"""The status of a job: what people have decided, then where its rollout stands.

Promises: an ended job keeps its status. Never: I/O.
"""

from __future__ import annotations

from typing import Final

from holdfast.core.fleet.model import JOB_ENDED, ApprovalState, JobStatus
from holdfast.core.fleet.rollout.state import RolloutState

_BY_APPROVAL: Final = {
    ApprovalState.WAIT_APPROVAL: JobStatus.WAIT_APPROVAL,
    ApprovalState.VOID: JobStatus.WAIT_APPROVAL,
    ApprovalState.REJECTED: JobStatus.REJECTED,
    ApprovalState.EXPIRED: JobStatus.EXPIRED,
}


def job_status(approval: ApprovalState, rollout: RolloutState | None) -> JobStatus:
    """The status of a job. A job whose approval is void waits for another one; if it has started, it stays
    RUNNING meanwhile, and starts no further hosts. A job that was rejected after its start halts; it is
    REJECTED when its hosts have ended."""
    if rollout is not None and rollout.finished is not None:
        return rollout.finished
    if rollout is not None and rollout.halt is not None:
        return JobStatus.HALTING if rollout.halt.is_final else JobStatus.PAUSED
    if rollout is not None and rollout.wave:
        return JobStatus.RUNNING
    return _BY_APPROVAL.get(approval, JobStatus.NEW)


STEPS: Final[dict[JobStatus, frozenset[JobStatus]]] = {
    JobStatus.NEW: frozenset(
        {
            JobStatus.WAIT_APPROVAL,
            JobStatus.RUNNING,
            JobStatus.PAUSED,
            JobStatus.HALTING,
            *JOB_ENDED,
        }
    ),
    JobStatus.WAIT_APPROVAL: frozenset(
        {JobStatus.NEW, JobStatus.RUNNING, JobStatus.PAUSED, JobStatus.HALTING, *JOB_ENDED}
    ),
    JobStatus.RUNNING: frozenset({JobStatus.PAUSED, JobStatus.HALTING, *JOB_ENDED}),
    JobStatus.PAUSED: frozenset(
        {JobStatus.NEW, JobStatus.WAIT_APPROVAL, JobStatus.RUNNING, JobStatus.HALTING, *JOB_ENDED}
    ),
    JobStatus.HALTING: JOB_ENDED,
}
"""What may follow each status of a job that has not ended."""


def may_move(before: JobStatus, after: JobStatus) -> bool:
    return before is after or after in STEPS.get(before, frozenset())
