"""The JSON form of jobs, executions and approvals. One shape for each object on every face
(`client.job_models`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from holdfast.client import job_models as models
from holdfast.client.models import Reason
from holdfast.core import codec
from holdfast.core.fleet.agents.run_output import read_states
from holdfast.core.fleet.approvals import approval as rules_of_approval
from holdfast.core.fleet.approvals.break_glass import BreakGlass
from holdfast.core.fleet.hosts.selector import fold
from holdfast.core.fleet.jobs.drift import HostDrift
from holdfast.core.fleet.jobs.spec import JobSpec, read_spec
from holdfast.core.fleet.model import ApprovalRequest, Job, Vote
from holdfast.core.fleet.rollout.policy import Policy, place_of, wave_of, wave_sizes
from holdfast.core.fleet.rollout.state import BudgetUse, RolloutState, usage
from holdfast.core.fleet.status import KINDS, ExecutionKind
from holdfast.core.wire import preview
from holdfast.fleet.jobs.approval_rows import ApprovalView, shown as shown_approval
from holdfast.fleet.jobs.control import Ordered
from holdfast.fleet.jobs.create import Created, Excluded
from holdfast.fleet.jobs.job_rows import counts_of, rollout_of
from holdfast.fleet.jobs.reads import ExecutionView, JobDetail, PlannedHost
from holdfast.fleet.jobs.why import ExecutionWhy
from holdfast.queue.views import View, at, shown
from holdfast.queue.views.values import remaining

PLAN_SHOWN: Final = 1_000
"""Hosts of a dry run that are listed one by one."""
_excluded: Final = msgspec.json.Decoder(list[Excluded])
_glass: Final = msgspec.json.Decoder(BreakGlass)


# -- jobs --------------------------------------------------------------------------------------------


def created(of: Created, *, dry_run: bool = False) -> View:
    job = of.job
    names = [host.name for host in of.hosts]
    return shown(
        models.JobAnswer(
            job_id=job.id,
            external_id=job.external_id,
            project=job.project,
            status=job.status.value,
            approval_state=job.approval_state.value,
            hosts=job.hosts,
            excluded=_excluded_of(job),
            digest=job.digest,
            created=of.created,
            url=f"/jobs/{job.id}",
            dry_run=dry_run,
            folded=fold(names) if dry_run else "",
            plan=_foreseen(of) if dry_run else [],
            **(_conditions(of) if dry_run else {}),
        )
    )


def _conditions(of: Created) -> dict[str, Any]:
    """What the job of a dry run would wait for, and what would halt it."""
    rollout = rollout_of(of.job)
    approval = shown_approval(of.job, of.approval, ())
    return {
        "approval": _approval(approval, of.job.created_at),
        "waves": list(wave_sizes(rollout.policy, of.job.hosts)),
        "rollout": msgspec.to_builtins(rollout.policy),
        "budget": _budget(usage(rollout.policy, rollout.state)),
    }


def _foreseen(of: Created) -> list[models.PlanRow]:
    policy, job = rollout_of(of.job).policy, of.job
    blocked = {each.host: each.detail for each in of.excluded}
    return [
        models.PlanRow(
            host=host.name,
            host_id=host.id,
            nth=nth,
            wave=wave_of(policy, job.hosts, nth),
            place=place_of(policy, job.hosts, nth),
            would_run=host.name not in blocked,
            reason=blocked.get(host.name, ""),
        )
        for nth, host in enumerate(of.hosts[:PLAN_SHOWN])
    ]


def job_row(of: Job) -> View:
    """A job in a list. Its command is cut."""
    return shown(_row(of))


def _row(of: Job) -> models.JobRow:
    fields = _job(of, read_spec(of.spec_json))
    return models.JobRow(**{**fields, "command": preview(fields["command"])})


def ordered(of: Ordered) -> View:
    return shown(models.JobChanged(job=_row(of.job), repeated=of.is_repeat))


def job(
    of: JobDetail, now: float, *, approval: ApprovalView | None, drift: HostDrift | None
) -> View:
    row, spec = of.job, of.spec
    policy, state = of.rollout.policy, of.rollout.state
    return shown(
        models.JobView(
            **_job(row, spec),
            selector=spec.selector,
            args=spec.args,
            env=spec.env,
            secrets=msgspec.to_builtins(spec.secrets),
            rollout=msgspec.to_builtins(policy),
            exec_timeout_seconds=spec.exec_timeout_seconds,
            retry={
                "max_retries": spec.max_retries,
                "base_seconds": spec.base_seconds,
                "cap_seconds": spec.cap_seconds,
            },
            idempotent=spec.idempotent,
            on_restart=spec.on_restart.value,
            priority=spec.priority.name.lower(),
            metadata=spec.metadata,
            counts=of.statuses,
            kinds=of.kinds,
            waves=_waves(policy, state),
            budget=_budget(of.budget),
            eta_seconds=of.eta_seconds,
            excluded=_excluded_of(row),
            folded=of.folded,
            approval=None if approval is None else _approval(approval, now),
            glass=_glass_of(row),
            drift=None if drift is None else _drift(drift),
            corrected=of.rollout.corrected,
        )
    )


def _job(of: Job, spec: JobSpec) -> dict[str, Any]:
    rollout = rollout_of(of)
    halt = rollout.state.halt
    return {
        "id": of.id,
        "external_id": of.external_id,
        "project": of.project,
        "command_type": spec.command_type,
        "command": spec.command,
        "status": of.status.value,
        "approval_state": of.approval_state.value,
        "approval_id": of.approval_id,
        "created_by": of.created_by,
        "reason": of.reason,
        "created_at": at(of.created_at),
        "started_at": at(of.started_at),
        "finished_at": at(of.finished_at),
        "not_after": at(of.not_after),
        "hosts": of.hosts,
        "ended": _ended(of),
        "wave": rollout.state.wave,
        "waves_total": len(wave_sizes(rollout.policy, of.hosts)),
        "halt": None
        if halt is None
        else models.HaltView(
            mode=halt.mode.value, reason=halt.reason, actor=halt.actor, cause=halt.cause.value
        ),
        "break_glass": of.break_glass_json is not None,
        "parent_job_id": of.parent_id,
        "digest": of.digest,
        "version": of.version,
    }


def _ended(of: Job) -> dict[str, int]:
    found: dict[str, int] = {}
    for kind, n in counts_of(of).items():
        status = KINDS[ExecutionKind(kind)].status.value
        found[status] = found.get(status, 0) + n
    return found


def _excluded_of(of: Job) -> list[models.ExcludedHost]:
    return [
        models.ExcludedHost(host=each.host, reason=each.reason, detail=each.detail, held=each.held)
        for each in _excluded.decode(of.excluded_json)
    ]


def _budget(of: Mapping[str, BudgetUse]) -> dict[str, models.BudgetView]:
    return {name: models.BudgetView(used=use.used, limit=use.limit) for name, use in of.items()}


def _waves(policy: Policy, state: RolloutState) -> list[models.WaveView]:
    found = []
    for n, size in enumerate(wave_sizes(policy, state.hosts), start=1):
        opened = state.waves[n - 1] if n <= state.wave else None
        name = "pending"
        if opened is not None:
            name = "open" if opened.closed_at is None else "closed"
        elif state.asked and n == state.wave + 1:
            name = "asked"
        found.append(
            models.WaveView(
                n=n,
                size=size,
                state=name,
                started_at=at(None if opened is None else opened.opened_at),
                closed_at=at(None if opened is None else opened.closed_at),
                counts={} if opened is None else msgspec.structs.asdict(opened.ended),
            )
        )
    return found


def _glass_of(of: Job) -> models.BreakGlassView | None:
    if of.break_glass_json is None:
        return None
    record = _glass.decode(of.break_glass_json)
    return models.BreakGlassView(
        actor=record.actor,
        reason=record.reason,
        ticket=record.ticket,
        at=at(record.at),
        reviewed_by=record.reviewed_by,
        reviewed_at=at(record.reviewed_at),
        note=record.note,
    )


def _drift(of: HostDrift) -> models.DriftView:
    return models.DriftView(
        new=list(of.new),
        gone=list(of.gone),
        changed=list(of.changed),
        new_count=of.new_count,
        gone_count=of.gone_count,
        changed_count=of.changed_count,
    )


def planned(of: PlannedHost) -> View:
    return shown(
        models.PlanRow(
            host=of.execution.host,
            host_id=of.execution.host_id,
            nth=of.execution.nth,
            wave=of.wave,
            place=of.place,
            would_run=of.would_run,
            reason=of.reason,
            execution_id=of.execution.task_id,
        )
    )


# -- approvals ---------------------------------------------------------------------------------------


def voted(of: ApprovalView, now: float) -> View:
    return shown(
        models.ApprovalAnswer(
            job_id=of.job.id,
            status=of.job.status.value,
            approval_state=of.job.approval_state.value,
            approval=None if of.request is None else _approval(of, now),
            repeated=of.is_repeat,
            version=of.job.version,
        )
    )


def open_approval(of: ApprovalRequest, job: Job, now: float) -> View:
    return shown(models.OpenApproval(**_request(of, now), job=_row(job)))


def _approval(of: ApprovalView, now: float) -> models.ApprovalView | None:
    if of.request is None or of.tally is None:
        return None
    return models.ApprovalView(
        **_request(of.request, now),
        have=of.tally.have,
        denied=of.tally.denied,
        votes=[_vote(vote) for vote in of.votes],
    )


def _request(of: ApprovalRequest, now: float) -> dict[str, Any]:
    rule = rules_of_approval.rule_of(of)
    tally = rules_of_approval.tally(rule, (), of.digest)
    return {
        "id": of.id,
        "job_id": of.job_id,
        "project": of.project,
        "state": of.state,
        "digest": of.digest,
        "rule": rule.name,
        "requested_by": of.requested_by,
        "excluded": sorted(rules_of_approval.excluded_of(of)),
        "eligible": sorted({member for group in rule.all_of for member in group.from_}),
        "need": tally.need,
        "created_at": at(of.created_at),
        "expires_at": at(of.expires_at),
        "remaining_seconds": remaining(of.expires_at, now) if of.ended_at is None else None,
        "version": of.version,
    }


def _vote(of: Vote) -> models.VoteView:
    return models.VoteView(
        voter=of.voter,
        verdict=of.verdict,
        reason=of.reason,
        at=at(of.at),
        withdrawn_at=at(of.withdrawn_at),
    )


# -- executions --------------------------------------------------------------------------------------


def execution(of: ExecutionView, job: Job) -> View:
    row, task = of.execution, of.task
    lasted = None
    if row.go_at is not None and row.ended_at is not None:
        lasted = round(max(0.0, row.ended_at - row.go_at), 3)
    return shown(
        models.ExecutionView(
            id=row.task_id,
            job_id=row.job_id,
            host=row.host,
            host_id=row.host_id,
            nth=row.nth,
            wave=row.wave,
            status=of.shown.status.value,
            kind=of.shown.kind.value,
            reason=of.shown.reason,
            task_status=task.status.value,
            attempt=task.attempts,
            max_attempts=task.max_attempts,
            token=row.token,
            exit_code=row.exit_code,
            signal=row.signal,
            queued_at=None if row.wave is None else at(task.due_at),
            started_at=at(row.go_at),
            finished_at=at(row.ended_at),
            duration_seconds=lasted,
            output={
                name: models.StreamView(
                    bytes=state.bytes,
                    kept=state.kept,
                    sha256=state.sha256,
                    complete=state.complete,
                )
                for name, state in read_states(row.output_json).items()
            },
            late=None if row.late_json is None else codec.loads(row.late_json),
            break_glass=job.break_glass_json is not None,
            parent_job_id=job.parent_id,
            version=task.version,
        )
    )


def why(of: ExecutionWhy) -> View:
    row = of.view.execution
    return shown(
        models.ExecutionWhy(
            execution_id=row.task_id,
            job_id=row.job_id,
            host=row.host,
            status=of.view.shown.status.value,
            kind=of.view.shown.kind.value,
            reasons=[Reason(cause.code, cause.text) for cause in of.causes],
        )
    )
