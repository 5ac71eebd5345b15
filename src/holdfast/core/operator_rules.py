"""How the commands of an operator change a task."""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.core import command as c, edits
from holdfast.core.submit import PAYLOAD_BYTES_MAX
from holdfast.core.task import TERMINAL, Status, Task
from holdfast.core.transition import (
    Ruling,
    Transition,
    new_event,
    refuse,
    signed,
    with_status,
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
    )
    event = new_event("task.aborted", task, now, actor=command.actor, reason=command.reason)
    return Transition(task, after, (event,))


def pause(task: Task, command: c.Pause, now: float) -> Ruling:
    if task.status is not Status.RUNNING:
        return refuse(task, "illegal-transition", "only a running task can be paused")
    after = without_lease(
        task,
        Status.PAUSED,
        now,
        fence=task.fence + 1,
        attempts=task.attempts - 1,
        held_by=signed(command.actor, command.reason),
    )
    event = new_event("task.paused", task, now, actor=command.actor, reason=command.reason)
    return Transition(task, after, (event,))


def resume(task: Task, command: c.Resume, now: float) -> Ruling:
    if task.status not in (Status.PAUSED, Status.STUCK):
        return refuse(task, "illegal-transition", "only a paused or stuck task can be resumed")
    after = with_status(task, Status.QUEUED, now, due_at=now, held_by=None)
    return Transition(task, after, (new_event("task.resumed", task, now, actor=command.actor),))


def replay(task: Task, command: c.Replay, now: float) -> Ruling:
    if task.status is not Status.FAILED:
        return refuse(task, "illegal-transition", "only a dead letter can be replayed")
    payload = command.payload_json if command.payload_json is not None else task.payload_json
    after = with_status(
        task,
        Status.QUEUED,
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
    return Transition(task, after, (event,))


def edit(task: Task, command: c.Edit, now: float) -> Ruling:
    if task.status not in (Status.FAILED, Status.QUEUED, Status.BLOCKED, Status.PAUSED):
        return refuse(task, "illegal-transition", "only a waiting or dead task can be edited")
    payload = command.payload_json
    if command.merge:
        merged = edits.merged(task.payload_json, payload)
        if merged is None:
            return refuse(
                task,
                "invalid-input",
                "its payload or the change is not an object: replace it whole",
            )
        payload = merged
    if len(payload.encode()) > PAYLOAD_BYTES_MAX:
        return refuse(
            task, "payload-too-large", f"its payload would have over {PAYLOAD_BYTES_MAX} bytes"
        )
    after = replace(task, payload_json=payload, version=task.version + 1, updated_at=now)
    change = edits.difference(task.payload_json, payload)
    event = new_event("task.edited", task, now, actor=command.actor, **change)
    return Transition(task, after, (event,))
