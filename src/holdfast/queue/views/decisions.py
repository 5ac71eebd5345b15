"""Decisions and interventions in JSON."""

from __future__ import annotations

from typing import Any

from holdfast.client import models
from holdfast.core import codec
from holdfast.core.decision import Decision, DecisionState
from holdfast.core.intervention import (
    DryRun,
    Effect,
    Intervention,
    InterventionState,
    InterventionType,
)
from holdfast.core.task import DEFAULT_PROJECT
from holdfast.queue.views.values import View, at, known_time, parsed, remaining, shown, time_of
from holdfast.store.decisions import AskedPoint


def decision(of: Decision, now: float) -> View:
    """A decision in a list."""
    return shown(models.DecisionRow(**_fields(of, now)))


def whole_decision(of: Decision, now: float, point: AskedPoint | None) -> View:
    """A decision with the checkpoint with which its task asked."""
    asked = None
    if point is not None:
        asked = models.AskedPointView(**{**point._asdict(), "created_at": at(point.created_at)})
    return shown(models.DecisionView(**_fields(of, now), checkpoint=asked))


def intervention(of: Intervention) -> View:
    """An intervention with the step that its runner has reached."""
    return shown(
        models.Intervention(
            id=of.id,
            type=of.type.value,
            task_id=of.task_id,
            project=of.project,
            args=codec.loads_object(of.args_json),
            reason=of.reason,
            actor=of.actor,
            claimed_by=of.requested_by or None,
            state=of.state.value,
            effect=_effect(of.effect),
            target_node=of.target_node,
            target_fence=of.target_fence,
            issued_at=at(of.issued_at),
            delivered_at=at(of.delivered_at),
            ended_at=at(of.ended_at),
            expires_at=at(of.expires_at),
            detail=of.detail,
        )
    )


def dry_run(of: DryRun) -> View:
    """What an intervention would do."""
    return shown(
        models.DryRunView(
            task_id=of.task_id,
            effect=_effect(of.effect),
            runner=of.runner,
            dependents=of.dependents,
            would_run_next=of.would_run_next,
        )
    )


def read_decision(view: View) -> Decision:
    """The decision of a view, without the fence of its run."""
    given = parsed(view, models.DecisionRow)
    return Decision(
        id=given.id,
        project=given.project or DEFAULT_PROJECT,
        task_id=given.task_id,
        key=given.key or "",
        question=given.question,
        options=tuple(given.options),
        schema_json=_json(given.schema),
        default_json=_json(given.default),
        assignees=tuple(given.assignees),
        deadline_at=time_of(given.deadline_at),
        state=DecisionState(given.state),
        choice_json=_json(given.choice),
        data_json=_json(given.data),
        by=given.by or "",
        reason=given.reason or "",
        at=time_of(given.at),
        version=given.version,
        fence=0,
        created_at=0.0,
    )


def read_asked_point(view: View | None) -> AskedPoint | None:
    """The checkpoint of a decision's view."""
    if view is None:
        return None
    given = parsed(view, models.AskedPointView)
    return AskedPoint(given.type, given.note, given.data, known_time(given.created_at))


def read_intervention(view: View) -> Intervention:
    """The intervention of a view, without the lease of its runner."""
    given = parsed(view, models.Intervention)
    return Intervention(
        id=given.id or "",
        project=given.project or DEFAULT_PROJECT,
        task_id=given.task_id,
        type=InterventionType(given.type),
        args_json=codec.dumps(given.args),
        reason=given.reason,
        actor=given.actor or "",
        requested_by=given.claimed_by or "",
        target_node=given.target_node,
        target_fence=given.target_fence,
        state=InterventionState(given.state),
        issued_at=known_time(given.issued_at),
        delivered_at=time_of(given.delivered_at),
        ended_at=time_of(given.ended_at),
        expires_at=known_time(given.expires_at),
        lease_until=None,
        effect=_read_effect(given.effect),
        detail=given.detail,
    )


def read_dry_run(view: View) -> DryRun:
    given = parsed(view, models.DryRunView)
    fields = {name: getattr(given, name) for name in ("runner", "dependents", "would_run_next")}
    return DryRun(task_id=given.task_id, effect=_read_effect(given.effect), **fields)


def _read_effect(of: models.EffectView | None) -> Effect | None:
    return None if of is None else Effect(of.before, of.after, of.fence)


def _json(value: codec.Json) -> str | None:
    return None if value is None else codec.dumps(value)


def _effect(of: Effect | None) -> models.EffectView | None:
    if of is None:
        return None
    return models.EffectView(before=of.before, after=of.after, fence=of.fence)


def _fields(of: Decision, now: float) -> dict[str, Any]:
    return {
        "id": of.id,
        "task_id": of.task_id,
        "project": of.project,
        "key": of.key,
        "question": of.question,
        "options": list(of.options),
        "schema": None if of.schema_json is None else codec.loads(of.schema_json),
        "default": None if of.default_json is None else codec.loads(of.default_json),
        "assignees": list(of.assignees),
        "deadline_at": at(of.deadline_at),
        "remaining_seconds": remaining(of.deadline_at, now),
        "state": of.state.value,
        "choice": of.choice,
        "data": of.data,
        "by": of.by or None,
        "reason": of.reason,
        "at": at(of.at),
        "version": of.version,
    }
