"""Transactions of votes: what they change, and what they end.

Promises: every move of a request goes through `_settle`: a request that was refused or has run out ends what
has not got its go in the same transaction, whether a vote, a vote that was taken back or the time moved it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from msgspec.structs import replace

from holdfast.core.event import NewEvent
from holdfast.core.fleet.approvals import approval as rules_of_approval
from holdfast.core.fleet.approvals.approval import (
    JOB_STATES,
    Ballot,
    RequestState,
)
from holdfast.core.fleet.model import (
    ApprovalRequest,
    Job,
    OutboxKind,
    Vote,
)
from holdfast.core.fleet.rollout.control import halt
from holdfast.core.fleet.rollout.policy import HaltMode
from holdfast.core.fleet.rollout.state import ROLLOUT_ACTOR, HaltCause
from holdfast.core.fleet.rules import FleetRules
from holdfast.core.ids import Ids
from holdfast.fleet.jobs import asking
from holdfast.fleet.jobs.approval_rows import ApprovalView, asked, save, shown
from holdfast.fleet.jobs.drift import ask_again, current_digest
from holdfast.fleet.jobs.job_rows import (
    job_event,
    lock_for,
    lock_job,
    rollout_of,
    with_rollout,
)
from holdfast.fleet.jobs.outbox import announce
from holdfast.fleet.jobs.steps import JobStep
from holdfast.queue.by import By
from holdfast.store.beside import begin, end
from holdfast.store.port import Dialect
from holdfast.store.script import Script

ENDED_MAX: Final = 5_000
"""Executions that the transaction of a rejection ends. Those of a larger job follow."""


class Drifted(Exception):
    """The job is not what people were asked about. Nothing was written."""


def vote(
    dialect: Dialect,
    ids: Ids,
    now: float,
    *,
    job_id: str,
    ballot: Ballot,
    by: By,
    rules: FleetRules,
) -> Script[ApprovalView]:
    yield from begin(by.beside, now)
    job = yield from lock_for(job_id, by.expected_version)
    request, votes, is_repeat = yield from asked(job, ballot.person.name, ballot.verdict)
    if is_repeat:
        return (yield from _repeat(job, request, votes, by, now))
    if job.started_at is None and request.state == RequestState.PENDING:
        current = yield from current_digest(job, rules, now)
        if current.digest != request.digest:
            raise Drifted
    name = ballot.person.name
    yield from asking.check_apart(name, asking.editors(job), "asked for the job or has changed it")
    voters = {v.voter for v in votes if v.withdrawn_at is None} - {name}
    yield from asking.check_apart(name, voters, "has voted")
    cast = rules_of_approval.vote(request, votes, ballot, now)
    yield from asking.write_vote(cast.vote)
    yield from asking.write_request(request, cast.request)
    votes = [*(vote for vote in votes if vote.voter != cast.vote.voter), cast.vote]
    said = {"actor": cast.vote.voter, "reason": cast.vote.reason, "digest": cast.request.digest}
    return (
        yield from _settle(
            dialect, ids, now, job=job, before=request, request=cast.request, votes=votes, by=by,
            rules=rules, verdict=cast.vote.verdict, said=said,
        )
    )  # fmt: skip


def _repeat(
    job: Job, request: ApprovalRequest, votes: Sequence[Vote], by: By, now: float
) -> Script[ApprovalView]:
    """The answer to a vote that was given before."""
    view = shown(job, request, votes, is_repeat=True)
    yield from end(by.beside, view, now)
    return view


def _settle(
    dialect: Dialect,
    ids: Ids,
    now: float,
    *,
    job: Job,
    before: ApprovalRequest,
    request: ApprovalRequest,
    votes: Sequence[Vote],
    by: By | None,
    rules: FleetRules,
    verdict: str | None,
    said: dict[str, Any],
) -> Script[ApprovalView]:
    """What follows for the job from the state of its request, whatever has moved it: a vote, a vote that was
    taken back, or the time. A request that was refused or has run out ends the job. `verdict`: that of the
    person who moved it; None if no person did."""
    state = RequestState(request.state)
    changed = replace(job, approval_state=JOB_STATES[state])
    if state in _ENDS:
        ends = said if state is RequestState.REJECTED else _EXPIRED
        voted = verdict is not None and state is RequestState.EXPIRED
        first = [job_event("job.voted", changed, now, verdict=verdict, **said)] if voted else []
        return (
            yield from _end_unstarted(
                dialect, ids, now, job=job, changed=changed, request=request, votes=votes, by=by,
                rules=rules, said=ends, cause=_ENDS[state], first=first,
            )
        )  # fmt: skip
    kind = "job.voted"
    if state is RequestState.APPROVED:
        changed = replace(changed, due_at=now)
        if before.state != state:
            kind = "job.approved"
            yield from announce(OutboxKind.PLAN_JOB, [job.id], now)
    else:
        changed = replace(changed, due_at=None)
    changed = with_rollout(changed, rollout_of(changed))
    event = job_event(kind, changed, now, verdict=verdict, **said)
    return (
        yield from save(
            dialect, ids, now, before=job, after=changed, events=[event], by=by, request=request,
            votes=votes,
        )
    )  # fmt: skip


_ENDS: Final = {
    RequestState.REJECTED: HaltCause.REJECTED,
    RequestState.EXPIRED: HaltCause.EXPIRED,
}
"""States of a request that end its job."""
_EXPIRED: Final = {"actor": ROLLOUT_ACTOR, "reason": "it was not approved in time"}


def void(dialect: Dialect, ids: Ids, now: float, *, job_id: str, rules: FleetRules) -> Script[None]:
    """Asks again about a job that has changed since it was asked about."""
    job = yield from lock_for(job_id, None)
    if job.started_at is not None or job.approval_id is None:
        return
    current = yield from current_digest(job, rules, now)
    if current.digest != job.digest:
        changed, events = yield from ask_again(job, current, rules, ids, now)
        yield from save(dialect, ids, now, before=job, after=changed, events=events)


def _end_unstarted(
    dialect: Dialect,
    ids: Ids,
    now: float,
    *,
    job: Job,
    changed: Job,
    request: ApprovalRequest,
    votes: Sequence[Vote],
    by: By | None,
    rules: FleetRules,
    said: dict[str, Any],
    cause: HaltCause,
    first: Sequence[NewEvent] = (),
) -> Script[ApprovalView]:
    """Ends what has not got its go, in the transaction that decides."""
    rollout = rollout_of(changed)
    state = halt(
        rollout.state, HaltMode.DRAIN, reason=said["reason"], actor=said["actor"], cause=cause
    )
    changed = with_rollout(changed, replace(rollout, state=state))
    step = JobStep(changed, ids, rules, now, before=job)
    views: list[ApprovalView] = []

    def also(written: Job) -> Script[Sequence[NewEvent]]:
        views.append(shown(written, request, votes))
        if by is not None:
            yield from end(by.beside, views[0], now)
        return [*first, job_event("job.rejected", written, now, cause=cause.value, **said)]

    yield from step.run(dialect, most=ENDED_MAX, also=also)
    return views[0]


def withdraw(
    dialect: Dialect, ids: Ids, now: float, *, job_id: str, name: str, by: By, rules: FleetRules
) -> Script[ApprovalView]:
    yield from begin(by.beside, now)
    job = yield from lock_for(job_id, by.expected_version)
    request, votes, is_repeat = yield from asked(job, name, None)
    if is_repeat:
        return (yield from _repeat(job, request, votes, by, now))
    cast = rules_of_approval.withdraw(
        request, votes, name, now, is_started=job.started_at is not None
    )
    yield from asking.write_vote(cast.vote)
    yield from asking.write_request(request, cast.request)
    votes = [*(vote for vote in votes if vote.voter != name), cast.vote]
    said = {"actor": name, "reason": by.reason}
    return (
        yield from _settle(
            dialect, ids, now, job=job, before=request, request=cast.request, votes=votes, by=by,
            rules=rules, verdict="withdrawn", said=said,
        )
    )  # fmt: skip


def expire(
    dialect: Dialect, ids: Ids, now: float, *, job_id: str, rules: FleetRules
) -> Script[ApprovalRequest | None]:
    """Ends a job that was not approved in time. Returns its request, if that has ended so."""
    job = yield from lock_job(job_id)
    if job is None or job.approval_id is None:
        return None
    request = yield from asking.read_request(job.approval_id)
    votes = yield from asking.read_votes(request.id)
    expired = rules_of_approval.as_of(request, now)
    if expired is request or expired.state != RequestState.EXPIRED:
        return None
    yield from asking.write_request(request, expired)
    if job.finished_at is not None:
        return expired
    yield from _settle(
        dialect, ids, now, job=job, before=request, request=expired, votes=votes, by=None,
        rules=rules, verdict=None, said=_EXPIRED,
    )  # fmt: skip
    return expired
