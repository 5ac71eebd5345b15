"""Operations on approvals: what waits, approve, reject, withdraw, break the glass, review."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, Literal

import msgspec

from holdfast.core.check import check_page
from holdfast.core.fleet.approvals.approval import Person, as_of
from holdfast.core.fleet.approvals.break_glass import BreakGlass
from holdfast.core.fleet.model import Job
from holdfast.core.rights import Operation
from holdfast.fleet.jobs.approval_rows import ApprovalView
from holdfast.fleet.views import jobs as views
from holdfast.gateway.operations.call import Answer, Call
from holdfast.gateway.operations.fleet.job_control import OrderBody
from holdfast.gateway.operations.fleet.jobs import NOUN, known, readable
from holdfast.gateway.operations.fleet.scope import own_host, page, place, project_of
from holdfast.queue.by import By

O: Final = Operation  # noqa: E741
PENDING: Final = "pending"
_glass: Final = msgspec.json.Decoder(BreakGlass)
NO_ONE: Final = frozenset({"-"})
"""No principal has this name."""


class VoteBody(OrderBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A vote. `expect_digest`: what the voter has seen; another digest is `approval-void`."""

    expect_digest: str | None = None


class GlassBody(OrderBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    ticket: str


async def find(
    call: Call,
    *,
    state: Literal["pending"] = "pending",
    project: str | None = None,
    after: str | None = None,
    limit: int = 100,
) -> Answer:
    """One page of the requests that wait for votes, the oldest first, with their jobs."""
    call.authorise_any(O.JOBS_READ, owner_node=call.principal.node)
    check_page(limit)
    projects = None if call.projects is None else sorted(call.projects)
    if project is not None:
        projects = [project_of(call, O.JOBS_READ, project)]
    if own_host(call) is not None:
        return Answer({"items": [], "next": None})
    of = f"approvals {project}"
    fleet = call.services.fleet
    rows = await fleet.approvals.open(projects=projects, after=place(after, of=of), limit=limit)
    jobs = {job.id: job for job in await fleet.job_reads.many([row.job_id for row in rows])}
    now = call.services.now()
    items = [
        views.open_approval(row, jobs[row.job_id], now)
        for row in rows
        if row.job_id in jobs and as_of(row, now).state == PENDING
    ]
    return Answer(page(rows, limit, of=of, key=lambda row: row.id, items=items))


async def approve(call: Call, job_id: str, body: VoteBody, *, project: str | None = None) -> Answer:
    """Votes for a job. Never one's own."""
    act = call.services.fleet.approvals.approve
    return await _vote(call, job_id, body, project, act)


async def reject(call: Call, job_id: str, body: VoteBody, *, project: str | None = None) -> Answer:
    """Votes against a job. The vote that decides ends what has not started."""
    act = call.services.fleet.approvals.reject
    return await _vote(call, job_id, body, project, act)


async def withdraw(
    call: Call, job_id: str, body: OrderBody, *, project: str | None = None
) -> Answer:
    """Takes one's own vote back, before the job has started."""
    job, now = await _votable(call, job_id, project), call.services.now()
    with call.preconditions():
        view = await call.services.fleet.approvals.withdraw(
            job.id, _person(call), _by(call, O.JOBS_APPROVE, job, body, now)
        )
    return _answer(view, now)


async def _vote(
    call: Call,
    job_id: str,
    body: VoteBody,
    project: str | None,
    act: Callable[..., Awaitable[ApprovalView]],
) -> Answer:
    job, now = await _votable(call, job_id, project), call.services.now()
    by = _by(call, O.JOBS_APPROVE, job, body, now)
    with call.preconditions():
        view = await act(job.id, _person(call), by, expect_digest=body.expect_digest)
    return _answer(view, now)


async def break_glass(
    call: Call, job_id: str, body: GlassBody, *, project: str | None = None
) -> Answer:
    """Starts a job without its approval."""
    await call.check_answered(O.JOBS_BREAK_GLASS)
    job = await readable(call, O.JOBS_BREAK_GLASS, job_id, project)
    now = call.services.now()
    by = _by(call, O.JOBS_BREAK_GLASS, job, body, now, detail={"ticket": body.ticket})
    with call.preconditions():
        view = await call.services.fleet.approvals.break_glass(job.id, body.ticket, by)
    return _answer(view, now)


async def review(call: Call, job_id: str, body: OrderBody, *, project: str | None = None) -> Answer:
    """Says that another person has looked at a job that skipped its approval."""
    await call.check_answered(O.JOBS_APPROVE)
    call.authorise(O.JOBS_APPROVE, project=call.home, requester=NO_ONE)
    job = await known(call, job_id, project)
    used_by = "-"
    if job.break_glass_json is not None:
        used_by = _glass.decode(job.break_glass_json).actor
    call.authorise(O.JOBS_APPROVE, project=job.project, requester=used_by, noun=NOUN, id=job_id)
    now = call.services.now()
    with call.preconditions():
        view = await call.services.fleet.approvals.review(
            job.id, _by(call, O.JOBS_APPROVE, job, body, now)
        )
    return _answer(view, now)


async def _votable(call: Call, job_id: str, project: str | None) -> Job:
    await call.check_answered(O.JOBS_APPROVE)
    call.authorise(O.JOBS_APPROVE, project=call.home, requester=NO_ONE)
    job = await known(call, job_id, project)
    requester = await _requester(call, job.created_by)
    call.authorise(O.JOBS_APPROVE, project=job.project, requester=requester, noun=NOUN, id=job_id)
    return job


async def _requester(call: Call, name: str) -> frozenset[str]:
    """The principals that count as the one who asked: also the caller, if one of the two has a secret of
    the other."""
    caller = call.principal.name
    is_related = caller != name and await call.services.tokens.are_related(caller, name)
    return frozenset({name, caller} if is_related else {name})


def _person(call: Call) -> Person:
    roles = frozenset(f"role:{role.value}" for role in call.principal.roles)
    return Person(call.principal.name, roles)


def _by(
    call: Call,
    operation: Operation,
    job: Job,
    body: OrderBody,
    now: float,
    *,
    detail: object = None,
) -> By:
    return call.by(
        operation,
        project=job.project,
        subject=job.id,
        actor=call.principal.name,
        reason=body.reason,
        expected_version=body.expected_version,
        answer=lambda view: _answer(view, now),
        detail=detail,
        has_changed=lambda view: not view.is_repeat,
    )


def _answer(view: ApprovalView, now: float) -> Answer:
    """`now`: the time of the request, so that its repeat gets the same answer."""
    return Answer(views.voted(view, now), version=view.job.version)
