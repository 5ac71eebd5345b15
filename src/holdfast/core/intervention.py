"""Interventions: what an operator does to a task, and how far its runner has followed.

The task changes at once. The ladder is about the runner that lost it:
issued -> delivered -> applied, refused or expired. Promises: a command is for the run of one fence, and never
reaches a later one; it ends when the runner has acknowledged it, when the lease of the run would have ended,
or when the task was claimed again; expiry ends its delivery, never its effect. A repeat of an id gets the
answer of the first. Never: I/O, clocks.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from holdfast.core import command as c
from holdfast.core.task import LEASED, Status, Task
from holdfast.core.transition import Transition
from holdfast.errors import IdempotencyConflict

PREFIX: Final = "ivn_"
EXPIRES_SECONDS: Final = 3_600.0
REASON_CHARS_MAX: Final = 500
NO_REASON: Final = "no reason given"
"""What is recorded for a call that needs no reason. An intervention has one."""
FORCE_REASON_CHARS_MIN: Final = 10
FALLBACK_SECONDS: Final = 60.0


class InterventionType(StrEnum):
    """What an operator may do."""

    ABORT = "ABORT"
    PAUSE = "PAUSE"
    RESUME = "RESUME"
    RETRY = "RETRY"
    REASSIGN = "REASSIGN"
    RELEASE_LOCK = "RELEASE_LOCK"
    FORCE_STATUS = "FORCE_STATUS"


class InterventionState(StrEnum):
    """A step of the ladder."""

    ISSUED = "issued"
    DELIVERED = "delivered"
    APPLIED = "applied"
    REFUSED = "refused"
    EXPIRED = "expired"


class AckOutcome(StrEnum):
    """What a runner did with a command."""

    DONE = "done"
    REFUSED = "refused"
    UNKNOWN_TASK = "unknown_task"


class Effect(msgspec.Struct, frozen=True):
    """How the task changed."""

    before: str
    after: str
    fence: int


class Intervention(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the store."""

    id: str
    project: str
    task_id: str
    type: InterventionType
    args_json: str
    reason: str
    actor: str
    requested_by: str
    """The name that the caller gave, for display. JSON has it as `claimed_by`: nothing proves it."""
    target_node: str | None
    """The node of the runner that lost the task; None: no runner had it."""
    target_fence: int | None
    state: InterventionState
    issued_at: float
    delivered_at: float | None
    ended_at: float | None
    expires_at: float
    lease_until: float | None
    """When the lease of the target would have ended."""
    effect: Effect | None
    """None: the task was already so."""
    detail: str

    @property
    def is_pending(self) -> bool:
        """Whether the runner has still to follow."""
        return self.state in PENDING


S = InterventionState
PENDING: Final = frozenset({S.ISSUED, S.DELIVERED})
STEPS: Final[dict[InterventionState, frozenset[InterventionState]]] = {
    S.ISSUED: frozenset({S.DELIVERED, S.APPLIED, S.REFUSED, S.EXPIRED}),
    S.DELIVERED: frozenset({S.APPLIED, S.REFUSED, S.EXPIRED}),
    S.APPLIED: frozenset(),
    S.REFUSED: frozenset(),
    S.EXPIRED: frozenset(),
}
EVENTS: Final = {
    S.ISSUED: "intervention.issued",
    S.DELIVERED: "intervention.delivered",
    S.APPLIED: "intervention.applied",
    S.REFUSED: "intervention.refused",
    S.EXPIRED: "intervention.expired",
}
"""The kind of the event with which each state begins."""
NO_RUNNER: Final = "no runner"
FENCED: Final = "fenced"
LEASE_ENDED: Final = "the lease of the runner has ended"
UNWOUND: Final = "the handler has stopped"


class NewIntervention(msgspec.Struct, frozen=True, kw_only=True):
    """An intervention to record, with its command."""

    id: str
    task_id: str
    type: InterventionType
    command: c.OperatorCommand
    actor: str
    reason: str
    args_json: str = "{}"
    requested_by: str = ""
    expected_version: int | None = None
    expires_seconds: float = EXPIRES_SECONDS


def issued(
    new: NewIntervention, before: Task, moved: Transition | None, now: float
) -> Intervention:
    """The row of an intervention whose command was applied. `moved` is None if the task was already so."""
    takes = moved is not None and takes_away(moved)
    return Intervention(
        id=new.id,
        project=before.project,
        task_id=before.id,
        type=new.type,
        args_json=new.args_json,
        reason=new.reason,
        actor=new.actor,
        requested_by=new.requested_by,
        target_node=before.node if takes else None,
        target_fence=before.fence if takes else None,
        state=S.ISSUED if takes else S.APPLIED,
        issued_at=now,
        delivered_at=None,
        ended_at=None if takes else now,
        expires_at=now + new.expires_seconds,
        lease_until=before.lease_until if takes else None,
        effect=None if moved is None else effect_of(moved),
        detail="" if takes else NO_RUNNER,
    )


def takes_away(moved: Transition) -> bool:
    """Whether a runner loses the task by this change."""
    before, after = moved.before, moved.after
    return before.status in LEASED and after.fence > before.fence and before.node is not None


def effect_of(moved: Transition) -> Effect:
    return Effect(moved.before.status.value, moved.after.status.value, moved.after.fence)


def check_repeat(stored: Intervention, new: NewIntervention) -> None:
    """Raises IdempotencyConflict if the id belongs to another intervention."""
    same = (
        stored.task_id == new.task_id
        and stored.type is new.type
        and stored.args_json == new.args_json
        and stored.actor == new.actor
    )
    if not same:
        raise IdempotencyConflict(f"intervention {new.id} is another one: use a new id")


def delivered(row: Intervention, now: float) -> Intervention:
    """The command was handed to the node. A repeat of that changes nothing."""
    return row if row.state is not S.ISSUED else replace(row, state=S.DELIVERED, delivered_at=now)


def acknowledged(row: Intervention, outcome: AckOutcome, detail: str, now: float) -> Intervention:
    """The runner has followed, or says why it did not. An ended row stays as it is."""
    if not row.is_pending:
        return row
    state = S.REFUSED if outcome is AckOutcome.REFUSED else S.APPLIED
    return _ended(row, state, detail or outcome.value, now)


def due(row: Intervention, task: Task | None, now: float) -> Intervention:
    """The row at this time: ended if the runner cannot run any more, or if its time has passed."""
    if not row.is_pending:
        return row
    if task is None or is_superseded(row, task):
        return _ended(row, S.APPLIED, FENCED, now)
    if row.lease_until is None or row.lease_until <= now:
        return _ended(row, S.APPLIED, LEASE_ENDED, now)
    if row.expires_at <= now:
        return _ended(row, S.EXPIRED, "the runner did not acknowledge it in time", now)
    return row


def is_superseded(row: Intervention, task: Task) -> bool:
    """Whether the task was claimed again after the command was issued."""
    if row.target_fence is None or task.fence < row.target_fence + 2:
        return False
    return task.status in LEASED or (task.started_at or 0.0) > row.issued_at


def due_at(row: Intervention) -> float:
    """When a pending row ends by itself."""
    until = row.expires_at if row.lease_until is None else row.lease_until
    return min(until, row.expires_at)


def event_data(row: Intervention) -> dict[str, Any]:
    """The data of an event about the intervention."""
    data: dict[str, Any] = {
        "intervention_id": row.id,
        "intervention": row.type.value,
        "actor": row.actor,
        "reason": row.reason,
    }
    if row.target_node is not None:
        data |= {"target_node": row.target_node, "target_fence": row.target_fence}
    if row.detail:
        data["detail"] = row.detail
    return data


def events_between(before: Intervention | None, after: Intervention) -> tuple[str, ...]:
    """The kinds of the events of a step. A row that starts as applied was issued too."""
    if before is None:
        kinds = [EVENTS[S.ISSUED]]
        if after.state is not S.ISSUED:
            kinds.append(EVENTS[after.state])
        return tuple(kinds)
    return () if before.state is after.state else (EVENTS[after.state],)


def _ended(row: Intervention, state: InterventionState, detail: str, now: float) -> Intervention:
    return replace(row, state=state, ended_at=now, detail=detail)


class DryRun(msgspec.Struct, frozen=True, kw_only=True):
    """What an intervention would do."""

    task_id: str
    effect: Effect | None
    runner: str | None
    """The node that would lose the task."""
    dependents: int = 0
    would_run_next: bool = False
    """Whether the task would be ready at once."""


def foreseen(before: Task, moved: Transition | None, *, dependents: int, now: float) -> DryRun:
    """The answer of a dry run."""
    after = before if moved is None else moved.after
    is_ready = after.status is Status.QUEUED and after.gate is None and after.due_at <= now
    return DryRun(
        task_id=before.id,
        effect=None if moved is None else effect_of(moved),
        runner=before.node if moved is not None and takes_away(moved) else None,
        dependents=dependents,
        would_run_next=is_ready,
    )
