"""What the transactions of approvals share: what is shown, and how a change is written."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.core.event import NewEvent
from holdfast.core.fleet.approvals import approval as rules_of_approval
from holdfast.core.fleet.approvals.approval import ApprovalTally, VoteVerdict
from holdfast.core.fleet.model import (
    ApprovalRequest,
    Job,
    JobStatus,
    Vote,
)
from holdfast.core.ids import Ids
from holdfast.errors import AlreadyDecided, NotFound
from holdfast.fleet.jobs import asking
from holdfast.fleet.jobs.job_rows import (
    read_job,
    write_job,
)
from holdfast.queue.by import By
from holdfast.store.beside import end
from holdfast.store.port import Dialect
from holdfast.store.script import Script
from holdfast.store.scripts.work import Work


class ApprovalView(msgspec.Struct, frozen=True):
    """Where the approval of a job stands. The outcome for `By.beside`."""

    job: Job
    request: ApprovalRequest | None
    votes: tuple[Vote, ...] = ()
    tally: ApprovalTally | None = None
    is_repeat: bool = False
    """The act had been done before."""


def asked(
    job: Job, name: str = "", verdict: VoteVerdict | None = None
) -> Script[tuple[ApprovalRequest, list[Vote], bool]]:
    """The request on which this person votes, its votes, and whether the vote is a repeat: that is answered
    as before, also if the job has ended since. AlreadyDecided if it is none and comes too late."""
    if job.approval_id is None:
        raise AlreadyDecided(f"job {job.id} needs no approval ({job.approval_state})", decision=job)
    request = yield from asking.read_request(job.approval_id)
    votes = yield from asking.read_votes(request.id)
    is_repeat = rules_of_approval.repeated(request, votes, name, verdict) is not None
    is_over = job.finished_at is not None or job.status is JobStatus.HALTING
    if is_over and not is_repeat:
        raise AlreadyDecided(
            f"job {job.id} has ended or is halted: it is {job.status}", decision=job
        )
    return request, votes, is_repeat


def save(
    dialect: Dialect,
    ids: Ids,
    now: float,
    *,
    before: Job,
    after: Job,
    events: Sequence[NewEvent],
    by: By | None = None,
    request: ApprovalRequest | None = None,
    votes: Sequence[Vote] = (),
) -> Script[ApprovalView]:
    work = Work(now)
    work.mention(events)
    written = yield from write_job(before, after)
    view = shown(written, request, votes)
    if by is not None:
        yield from end(by.beside, view, now)
    yield from work.save(dialect, ids.record(now))
    return view


def shown(
    job: Job, request: ApprovalRequest | None, votes: Sequence[Vote], *, is_repeat: bool = False
) -> ApprovalView:
    if request is None:
        return ApprovalView(job, None, is_repeat=is_repeat)
    rule = rules_of_approval.rule_of(request)
    tally = rules_of_approval.tally(rule, votes, request.digest)
    return ApprovalView(job, request, tuple(votes), tally, is_repeat)


def view(job_id: str, now: float) -> Script[ApprovalView]:
    job = yield from read_job(job_id)
    if job is None:
        raise NotFound(f"there is no job '{job_id}'")
    if job.approval_id is None:
        return ApprovalView(job, None)
    request = yield from asking.read_request(job.approval_id)
    votes = yield from asking.read_votes(request.id)
    return shown(job, rules_of_approval.as_of(request, now), votes)
