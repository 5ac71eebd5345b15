"""Asks people whether a job may start: the rule that counts for it, and the rows of the question.

Promises: a job that no rule excepts needs an approval. A request is bound to the digest of its job and
ends, at the latest, when the job's own time is over.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from holdfast.core import codec
from holdfast.core.errors import SelfApproval
from holdfast.core.fleet.approvals import approval as rules_of_approval
from holdfast.core.fleet.approvals.approval import RequestState
from holdfast.core.fleet.approvals.rules import (
    DEFAULT_RULE,
    ApprovalRule,
    NotRequired,
    matching_in,
    rule_for,
)
from holdfast.core.fleet.hosts.selector_parse import may_ask_facts
from holdfast.core.fleet.jobs.spec import JobSpec
from holdfast.core.fleet.model import (
    APPROVAL_PREFIX,
    ApprovalRequest,
    ApprovalState,
    Host,
    Job,
    Vote,
)
from holdfast.core.fleet.rules import FleetRules
from holdfast.core.ids import Ids
from holdfast.fleet.hosts.groups import named_by
from holdfast.fleet.jobs.rows import own
from holdfast.fleet.rows import APPROVALS, VOTES, own as fleet_own
from holdfast.store.script import Script, call
from holdfast.sync.access.scripts import related


def ask_facts(rules: FleetRules) -> bool:
    """Whether `find_rule` needs the facts of the targets."""
    return any(may_ask_facts(rule.match.selector) for rule in rules.approval_rules)


def find_rule(
    spec: JobSpec, hosts: Sequence[Host], rules: FleetRules, *, is_defined: bool = True
) -> Script[ApprovalRule | NotRequired]:
    """The rule for a job with these targets. A command type that is not defined any more needs an
    approval."""
    default = replace(DEFAULT_RULE, expires_seconds=rules.approval_expires_seconds)
    if not is_defined:
        return default
    given = rules.approval_rules
    total = 0
    if any(rule.match.share for rule in given):
        total = (yield call(fleet_own("count_hosts"), project=spec.project))[0][0]
    groups = yield from named_by(spec.project, (rule.match.selector for rule in given))
    rule = rule_for(
        given,
        spec.command_type,
        len(hosts),
        total,
        matching=matching_in(hosts, groups),
        named=spec.definition.approval,
        above=spec.definition.approval_above,
        default=rules.approval_default,
    )
    return default if rule is DEFAULT_RULE else rule


def judged(
    job: Job,
    rule: ApprovalRule | NotRequired,
    ids: Ids,
    now: float,
) -> tuple[Job, ApprovalRequest | None]:
    """The job with the state of its approval, and the request that people have to decide, if any."""
    if isinstance(rule, NotRequired):
        state = ApprovalState.NOT_REQUIRED
        return replace(job, approval_state=state, approval_id=None, due_at=now), None
    request = rules_of_approval.ask(
        rule,
        approval_id=APPROVAL_PREFIX + ids.task(now).replace("-", ""),
        project=job.project,
        job_id=job.id,
        digest=job.digest,
        requested_by=job.created_by,
        excluded=excluded_voters(job),
        now=now,
    )
    request = replace(request, expires_at=min(request.expires_at, max(job.not_after, now)))
    waiting = replace(
        job, approval_state=ApprovalState.WAIT_APPROVAL, approval_id=request.id, due_at=None
    )
    return waiting, request


def excluded_voters(job: Job) -> set[str]:
    """Who may not vote on the job."""
    return {job.created_by, *msgspec.json.decode(job.excluded_voters_json, type=list[str])}


def excluding(job: Job, names: Iterable[str]) -> Job:
    """The job, on which these may not vote either."""
    return replace(job, excluded_voters_json=codec.dumps(sorted({*excluded_voters(job), *names})))


def check_apart(name: str, others: Iterable[str], why: str) -> Script[None]:
    """Raises SelfApproval if this person is one of the others, or one of the two has a secret of the other.
    `why`: what the others have done."""
    for other in sorted(others):
        if other == name:
            raise SelfApproval(f"{name} {why}: another person decides")
        if (yield from related(name, other)):
            raise SelfApproval(
                f"{other} {why}, and one of {name} and {other} has made a token of the other: "
                "another person decides"
            )


def editors(job: Job) -> set[str]:
    """Who has asked for the job or has edited it."""
    return {job.created_by, *msgspec.json.decode(job.editors_json, type=list[str])}


def edited(job: Job, name: str) -> Job:
    """The job after an edit by this person."""
    return replace(job, editors_json=codec.dumps(sorted({*editors(job), name})))


def exclude(job: Job, now: float) -> Script[None]:
    """Tells a request that waits who may not vote any more. Votes that they have given do not count."""
    if job.approval_id is None:
        return
    request = yield from read_request(job.approval_id)
    if request.state != RequestState.PENDING:
        return
    names = excluded_voters(job) | rules_of_approval.excluded_of(request)
    yield call(own("exclude_voters"), id=request.id, excluded_json=codec.dumps(sorted(names)))
    for vote in (yield from read_votes(request.id)):
        if vote.voter in names and vote.withdrawn_at is None:
            yield from write_vote(replace(vote, withdrawn_at=now))


def add_request(request: ApprovalRequest) -> Script[None]:
    yield call(own("add_approval"), **APPROVALS.columns(request))


def read_request(approval_id: str) -> Script[ApprovalRequest]:
    rows = yield call(own("get_approval"), id=approval_id)
    return APPROVALS.read(rows[0])


def read_votes(approval_id: str) -> Script[list[Vote]]:
    return VOTES.read_all((yield call(own("votes_of"), approval_id=approval_id)))


def write_request(before: ApprovalRequest, after: ApprovalRequest) -> Script[None]:
    """Writes the state, if it has changed: only from the state that was read. The job is locked."""
    if after == before:
        return
    written: list[Any] = yield call(
        own("write_approval"),
        id=after.id,
        state=after.state,
        ended_at=after.ended_at,
        version=after.version,
        seen=before.version,
        seen_state=before.state,
    )
    assert written, "the lock of the job keeps its approval as it is"


def voided(request: ApprovalRequest, now: float) -> ApprovalRequest:
    """The request that does not count any more. One that has ended otherwise stays as it is."""
    if request.state not in (RequestState.PENDING, RequestState.APPROVED):
        return request
    return replace(
        request, state=RequestState.VOID.value, ended_at=now, version=request.version + 1
    )


def write_vote(vote: Vote) -> Script[None]:
    yield call(own("write_vote"), **VOTES.columns(vote))
