"""Decisions and interventions in JSON."""

from __future__ import annotations

from typing import Any

from holdfast.client import models
from holdfast.core import codec
from holdfast.core.decision import Decision
from holdfast.core.intervention import DryRun, Effect, Intervention
from holdfast.queue.views.values import View, at, remaining, shown
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
            claimed_by=of.claimed_by or None,
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
