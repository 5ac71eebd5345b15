"""How an operator takes a task from its runner, reserves it for a node, or sets its status.

`FORCES` has a way for each status that a task may be forced into, by the status that it has. Promises: every
step is in `TRANSITIONS`; a runner that loses its task loses it by a new fence; only a claim starts a task.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from msgspec.structs import replace

from holdfast.core import command as c, failure as failures, gate, operator_rules
from holdfast.core.event import PAUSED, NewEvent, with_result
from holdfast.core.task import LEASED, FailureKind, Status, Task
from holdfast.core.transition import (
    Refusal,
    Ruling,
    Transition,
    already,
    changed,
    new_event,
    queued,
    refuse,
    released,
    taken_away,
    to_dead_letter,
    with_status,
    without_lease,
)

S = Status


def reassign(task: Task, command: c.Reassign, now: float) -> Ruling:
    """Only the node may claim the task, until the fallback time has passed."""
    seconds = command.fallback_seconds
    until = None if seconds is None else now + seconds
    match task.status:
        case S.RUNNING | S.STUCK:
            after = taken_away(task, now, assigned_to=command.to, assigned_until=until, due_at=now)
        case S.BLOCKED | S.PAUSED | S.QUEUED:
            after = changed(task, now, assigned_to=command.to, assigned_until=until)
            if task.status is S.QUEUED:
                after = gate.at_gate(after, now)
        case _:
            return refuse(task, "illegal-transition", "it has ended: retry it first")
    event = new_event(
        "task.assigned",
        task,
        now,
        node=command.to,
        until=until,
        actor=command.actor,
        reason=command.reason,
    )
    if task.status in LEASED:
        return Transition(task, after, (released(task, command.actor, command.reason, now), event))
    return Transition(task, after, (event,))


def unlock(task: Task, command: c.Unlock, now: float) -> Ruling:
    if task.status not in LEASED:
        return refuse(task, "not-locked", "no runner holds it")
    event = released(task, command.actor, command.reason, now)
    return Transition(task, taken_away(task, now), (event,))


def force(task: Task, command: c.Force, now: float) -> Ruling:
    way = FORCES.get(command.status, {}).get(task.status)
    if way is None:
        ways = [status.value for status, from_ in FORCES.items() if task.status in from_]
        hint = f": it can be forced to {', '.join(sorted(ways))}" if ways else ""
        return refuse(task, "illegal-transition", f"it cannot be forced to {command.status}{hint}")
    ruling = way(task, command, now)
    if isinstance(ruling, Refusal):
        return ruling
    forced = new_event(
        "task.forced",
        task,
        now,
        actor=command.actor,
        reason=command.reason,
        before=task.status.value,
        after=ruling.after.status.value,
    )
    if gate.is_held(ruling.after):
        forced.data["desired"] = PAUSED
    return replace(ruling, events=(forced, *ruling.events))


def _to_queued(task: Task, command: c.Force, now: float) -> Ruling:
    """Dependencies that are still open are waived."""
    after = queued(
        task,
        now,
        due_at=now,
        held_by=None,
        waiting_on=0,
        finished_at=None,
        fence=task.fence + (task.status in LEASED),
        attempts=0 if task.status is S.FAILED else task.attempts - (task.status in LEASED),
        deaths=0 if task.status is S.FAILED else task.deaths,
    )
    return Transition(task, after, ())


def _to_paused(task: Task, command: c.Force, now: float) -> Ruling:
    return operator_rules.pause(task, c.Pause(command.actor, command.reason), now)


def _to_failed(task: Task, command: c.Force, now: float) -> Ruling:
    message = f"forced to failed by {command.actor}: {command.reason or 'no reason given'}"
    failure = failures.plain(task.type, FailureKind.REJECTED, message)
    dead = to_dead_letter(task, failure, now)
    return replace(dead, after=replace(dead.after, fence=task.fence + 1, waiting_on=0))


def _to_completed(task: Task, command: c.Force, now: float) -> Ruling:
    """With a result of the operator, or a late result. Steps through the statuses in between."""
    result_json = command.result_json
    if command.evidence is not None:
        if task.fence > command.evidence.fence + 1:
            return refuse(
                task, "conflict", "it was claimed again after the run that produced this result"
            )
        result_json = command.evidence.result_json
    elif task.status in (S.QUEUED, S.FAILED):
        return refuse(
            task,
            "illegal-transition",
            "no run of it is open, so a result of the operator does not complete it: give as evidence the "
            "position of an event task.late, or abort it",
        )
    elif result_json is None:
        return refuse(task, "invalid-input", "a result or evidence is needed")
    before = task
    for status in _STEPS.get(task.status, ()):
        task = with_status(task, status, now, finished_at=None)
    after = without_lease(
        task,
        S.COMPLETED,
        now,
        finished_at=now,
        fence=before.fence + 1,
        gate=None,
        held_by=None,
        assigned_to=None,
        assigned_until=None,
        result_json=result_json,
    )
    data = with_result({"node": before.node, "attempt": before.attempts}, result_json)
    event = NewEvent("task.completed", now, before.id, before.type, data, before.event_project)
    return Transition(before, after, (event,))


def _nothing(task: Task, command: c.Force, now: float) -> Ruling:
    return already(task)


_STEPS: Final[dict[Status, tuple[Status, ...]]] = {
    S.QUEUED: (S.RUNNING,),
    S.STUCK: (S.RUNNING,),
    S.FAILED: (S.QUEUED, S.RUNNING),
}
"""The steps to a status from which a task completes."""
Way: TypeAlias = Callable[[Task, c.Force, float], Ruling]
FORCES: Final[dict[Status, dict[Status, Way]]] = {
    S.QUEUED: {
        S.BLOCKED: _to_queued,
        S.QUEUED: _nothing,
        S.RUNNING: _to_queued,
        S.PAUSED: _to_queued,
        S.STUCK: _to_queued,
        S.FAILED: _to_queued,
    },
    S.PAUSED: {S.QUEUED: _to_paused, S.RUNNING: _to_paused, S.PAUSED: _nothing},
    S.FAILED: {
        S.BLOCKED: _to_failed,
        S.RUNNING: _to_failed,
        S.PAUSED: _to_failed,
        S.STUCK: _to_failed,
    },
    S.COMPLETED: {
        S.QUEUED: _to_completed,
        S.RUNNING: _to_completed,
        S.PAUSED: _to_completed,
        S.STUCK: _to_completed,
        S.FAILED: _to_completed,
    },
}
