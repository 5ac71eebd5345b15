"""How the commands of an operator change a task."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from holdfast.core import codec, command as c, edits, four_eyes, gate, tags
from holdfast.core.affinity import preferring, reservation
from holdfast.core.event import PAUSED, NewEvent
from holdfast.core.submit import PAYLOAD_BYTES_MAX
from holdfast.core.task import LEASED, TERMINAL, Status, Task
from holdfast.core.transition import (
    Refusal,
    Ruling,
    Transition,
    already,
    changed,
    hold_of,
    new_event,
    paused,
    queued,
    refuse,
    released,
    signed,
    taken_away,
    without_lease,
)


def abort(task: Task, command: c.Abort, now: float) -> Ruling:
    if task.status in TERMINAL:
        return refuse(task, "illegal-transition", "it has ended and will not change")
    after = without_lease(
        task,
        Status.ABORTED,
        now,
        finished_at=now,
        fence=task.fence + 1,
        gate=None,
        waiting_on=0,
        held_by=signed(command.actor, command.reason),
        assigned_to=None,
        assigned_until=None,
    )
    event = new_event("task.aborted", task, now, actor=command.actor, reason=command.reason)
    return Transition(task, after, (event,))


def pause(task: Task, command: c.Pause, now: float) -> Ruling:
    """A runner loses its task. A waiting task is held: it keeps its status and gets the gate `!held`."""
    held_by = hold_of(command.actor, command.reason, command.run_id)
    match task.status:
        case Status.RUNNING:
            after = paused(task, now, held_by=held_by)
            return Transition(task, after, (_signed_event("task.paused", task, command, now),))
        case Status.STUCK:
            # The table has no way from stuck to paused; a held task in the queue waits just the same.
            after = taken_away(task, now, held_by=held_by)
            taken = released(task, command.actor, command.reason, now)
            taken.data["desired"] = PAUSED
            return Transition(task, after, (taken, _signed_event("task.held", task, command, now)))
        case Status.BLOCKED | Status.QUEUED | Status.PAUSED:
            waits_alone = task.status is Status.PAUSED and gate.decision_of(task) is None
            if (task.held_by is not None or waits_alone) and not gate.yields(task, command.actor):
                return already(task)
            after = changed(gate.without_preference(task), now, held_by=held_by)
            if task.status is Status.QUEUED:
                after = replace(after, gate=gate.HELD)
        case _:
            return refuse(
                task, "illegal-transition", "only a task that has not ended can be paused"
            )
    return Transition(task, after, (_signed_event("task.held", task, command, now),))


def resume(task: Task, command: c.Resume, now: float) -> Ruling:
    match task.status:
        case Status.BLOCKED | Status.QUEUED if task.held_by is not None:
            return _unheld(task, command, now)
        case Status.PAUSED if gate.decision_of(task) is not None:
            if task.held_by is None:
                return _decision_needed(task)
            return _unheld(task, command, now)
        case Status.PAUSED:
            reserved = reservation(task, command.affinity, now)
            after = queued(task, now, due_at=now, held_by=None, **reserved)
            after = preferring(after, reserved)
            event = _signed_event("task.resumed", task, command, now)
            return Transition(task, after, (replace(event, data=event.data | reserved),))
        case Status.STUCK:
            after = taken_away(task, now, due_at=now)
        case _:
            return refuse(
                task, "illegal-transition", "only a held, paused or stuck task can be resumed"
            )
    return Transition(task, after, (_signed_event("task.resumed", task, command, now),))


def _unheld(task: Task, command: c.Resume, now: float) -> Transition:
    after = changed(task, now, held_by=None)
    if task.status is Status.QUEUED:
        after = gate.at_gate(after, now)
    return Transition(task, after, (_signed_event("task.unheld", task, command, now),))


def _decision_needed(task: Task) -> Refusal:
    decision = gate.decision_of(task)
    return refuse(
        task,
        "decision-needed",
        f"it waits for decision {decision}: answer it with `holdfast decision answer {decision} CHOICE`, or "
        "abort the task",
    )


def retry(task: Task, command: c.RetryTask, now: float) -> Ruling:
    """Makes the task due now or after the delay. A new payload has a separate event, except for a dead
    letter, whose replay says it."""
    due_at = now + command.delay_seconds
    match task.status:
        case Status.QUEUED if task.due_at <= now and not command.delay_seconds:
            return _with_payload(already(task), task, command, now)
        case Status.QUEUED:
            event = _signed_event("task.rescheduled", task, command, now)
            event.data["due_at"] = due_at
            moved = Transition(task, changed(task, now, due_at=due_at), (event,))
            return _with_payload(moved, task, command, now)
        case Status.STUCK:
            event = _signed_event("task.resumed", task, command, now)
            moved = Transition(task, taken_away(task, now, due_at=due_at), (event,))
            return _with_payload(moved, task, command, now)
        case Status.FAILED:
            again = c.Replay(
                command.actor, command.delay_seconds, command.payload_json, command.reason
            )
            return replay(task, again, now)
        case Status.PAUSED if gate.decision_of(task) is not None:
            return _decision_needed(task)
        case _:
            return refuse(
                task,
                "illegal-transition",
                "only a queued, stuck or failed task can be retried; resume a paused one",
            )


def _with_payload(ruling: Ruling, task: Task, command: c.RetryTask, now: float) -> Ruling:
    """The ruling with the payload of the command, as one change of the task."""
    if command.payload_json in (None, task.payload_json):
        return ruling
    moved = ruling if isinstance(ruling, Transition) else None
    waiting = task if moved is None else moved.after
    change = c.Edit(command.actor, payload_json=command.payload_json, reason=command.reason)
    edited = edit(waiting, change, now)
    if moved is None or not isinstance(edited, Transition):
        return edited
    after = replace(edited.after, version=moved.after.version)
    return Transition(task, after, (*moved.events, *edited.events))


def _signed_event(
    kind: str, task: Task, command: c.Pause | c.Resume | c.RetryTask, now: float
) -> NewEvent:
    return new_event(kind, task, now, actor=command.actor, reason=command.reason)


def replay(task: Task, command: c.Replay, now: float) -> Ruling:
    if task.status is not Status.FAILED:
        return refuse(task, "illegal-transition", "only a dead letter can be replayed")
    payload = _payload_after(task, command)
    if isinstance(payload, Refusal):
        return payload
    after = queued(
        task,
        now,
        due_at=now + command.delay_seconds,
        attempts=0,
        deaths=0,
        finished_at=None,
        waiting_on=0,
        payload_json=payload,
    )
    edited = payload != task.payload_json
    change = edits.difference(task.payload_json, payload) if edited else {}
    event = new_event("task.replayed", task, now, actor=command.actor, edited=edited, **change)
    if command.reason:
        event.data["reason"] = command.reason
    return Transition(task, after, (event,))


def edit(task: Task, command: c.Edit, now: float) -> Ruling:
    """Changes what the task says: the payload while no runner has it, the rest until it has ended."""
    if task.status in TERMINAL:
        return refuse(task, "illegal-transition", "it has ended and will not change")
    changes: dict[str, str | None] = {}
    data: dict[str, Any] = {"actor": command.actor}
    if command.payload_json is not None:
        if task.status in LEASED:
            return refuse(task, "illegal-transition", "only a waiting or dead task can be edited")
        payload = _payload_after(task, command)
        if isinstance(payload, Refusal):
            return payload
        changes["payload_json"] = payload
        data |= edits.difference(task.payload_json, payload)
    if command.metadata_json is not None:
        if not four_eyes.is_kept(task.metadata, codec.loads_object(command.metadata_json)):
            return refuse(task, "invalid-input", "its four_eyes and submitted_by cannot change")
        changes["metadata_json"] = command.metadata_json
        data["metadata"] = edits.difference(task.metadata_json or "{}", command.metadata_json)
    if command.tags is not None and command.tags != task.tags:
        changes["tags_json"] = tags.tags_json(command.tags)
        data["tags"] = tags.difference(task.tags, command.tags)
    if command.reason:
        data["reason"] = command.reason
    return Transition(
        task, changed(task, now, **changes), (new_event("task.edited", task, now, **data),)
    )


def _payload_after(task: Task, command: c.Edit | c.Replay) -> str | Refusal:
    payload = edits.payload_after(task.payload_json, command)
    if payload is None:
        return refuse(
            task, "invalid-input", "its payload or the change is not an object: replace it whole"
        )
    if edits.has_payload(command) and len(payload.encode()) > PAYLOAD_BYTES_MAX:
        return refuse(
            task, "payload-too-large", f"its payload would have over {PAYLOAD_BYTES_MAX} bytes"
        )
    return payload
