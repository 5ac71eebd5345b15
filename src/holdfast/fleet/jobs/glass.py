"""Transactions of break-glass: a job that starts without its approval, and its review."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec.structs import replace

from holdfast.core import codec
from holdfast.core.fleet.approvals import approval as rules_of_approval, break_glass as glass_rules
from holdfast.core.fleet.approvals.break_glass import BreakGlass
from holdfast.core.fleet.model import (
    ApprovalRequest,
    ApprovalState,
    Job,
    OutboxKind,
)
from holdfast.core.fleet.rules import FleetRules
from holdfast.core.ids import Ids
from holdfast.errors import IllegalTransition
from holdfast.fleet.jobs import asking
from holdfast.fleet.jobs.approval_rows import ApprovalView, asked, save
from holdfast.fleet.jobs.job_rows import (
    job_event,
    lock_for,
    rollout_of,
    with_rollout,
)
from holdfast.fleet.jobs.outbox import announce
from holdfast.fleet.jobs.rows import own
from holdfast.fleet.rows import JOBS, own as fleet_own
from holdfast.queue.by import By
from holdfast.store.beside import begin, end
from holdfast.store.port import Dialect
from holdfast.store.script import Script, call

PAGE_MAX: Final = 1_000
"""Uses that are looked at for a review that is missing."""
_glass: Final = msgspec.json.Decoder(BreakGlass)


def break_glass(
    dialect: Dialect, ids: Ids, now: float, *, job_id: str, ticket: str, by: By, rules: FleetRules
) -> Script[ApprovalView]:
    yield from begin(by.beside, now)
    job = yield from lock_for(job_id, by.expected_version)
    if job.break_glass_json is not None:
        view = ApprovalView(job, None, is_repeat=True)
        yield from end(by.beside, view, now)
        return view
    # Two uses at once would each find none that waits for its review.
    yield call(fleet_own("hold_project"), id=job.project, now=now)
    unreviewed = yield from unreviewed_jobs(job.project)
    record = glass_rules.break_glass(
        job.approval_state,
        actor=by.actor,
        reason=by.reason,
        ticket=ticket,
        hosts=job.hosts,
        max_hosts=rules.break_glass_max_hosts,
        unreviewed=[other.id for other in unreviewed],
        now=now,
    )
    request, votes, _ = yield from asked(job)
    void = asking.voided(request, now)
    yield from asking.write_request(request, void)
    changed = replace(
        job,
        approval_state=ApprovalState.NOT_REQUIRED,
        break_glass_json=codec.dumps(msgspec.to_builtins(record)),
        due_at=now,
    )
    changed = with_rollout(changed, rollout_of(changed))
    yield from announce(OutboxKind.PLAN_JOB, [job.id], now)
    event = job_event(
        "job.break_glass",
        changed,
        now,
        actor=by.actor,
        reason=by.reason,
        ticket=ticket,
        hosts=job.hosts,
        assignees=_members(request),
    )
    return (
        yield from save(
            dialect,
            ids,
            now,
            before=job,
            after=changed,
            events=[event],
            by=by,
            request=void,
            votes=votes,
        )
    )


def _members(request: ApprovalRequest) -> list[str]:
    """Whose votes were skipped."""
    rule = rules_of_approval.rule_of(request)
    return sorted({member for group in rule.all_of for member in group.from_})


def review(
    dialect: Dialect, ids: Ids, now: float, *, job_id: str, by: By, rules: FleetRules
) -> Script[ApprovalView]:
    yield from begin(by.beside, now)
    job = yield from lock_for(job_id, by.expected_version)
    if job.break_glass_json is None:
        raise IllegalTransition(
            f"job {job.id} did not skip its approval: there is nothing to review"
        )
    record = _glass.decode(job.break_glass_json)
    if record.reviewed_by is None:
        yield from asking.check_apart(by.actor, {record.actor}, "has broken the glass")
        yield from asking.check_apart(by.actor, {job.created_by}, "asked for the job")
    reviewed = glass_rules.reviewed(record, by=by.actor, note=by.reason, now=now)
    changed = replace(job, break_glass_json=codec.dumps(msgspec.to_builtins(reviewed)))
    event = job_event("job.reviewed", job, now, actor=by.actor, reason=by.reason)
    return (
        yield from save(
            dialect,
            ids,
            now,
            before=job,
            after=changed,
            events=[] if reviewed is record else [event],
            by=by,
        )
    )


def unreviewed_jobs(project: str) -> Script[list[Job]]:
    """Those of the latest `PAGE_MAX` that skipped their approval."""
    rows = yield call(own("break_glass_jobs"), project=project, limit=PAGE_MAX)
    jobs = JOBS.read_all(rows)
    return [job for job in jobs if _glass.decode(job.break_glass_json or "").reviewed_by is None]
