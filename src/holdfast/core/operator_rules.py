"""What an operator's command does to a task."""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.core import command as c
from holdfast.core.task import TERMINAL, Status, Task
from holdfast.core.transition import Decision, Transition, fact, freed, moved, refuse


def abort(task: Task, command: c.Abort, now: float) -> Decision:
    if task.status in TERMINAL:
        return refuse(task, "illegal-transition", "it has ended and will not change")
    after = freed(
        task, Status.ABORTED, now, finished_at=now, fence=task.fence + 1, gate=None, waiting_on=0
    )
    told = fact("task.aborted", task, now, actor=command.actor, reason=command.reason)
    return Transition(task, after, (told,))


def pause(task: Task, command: c.Pause, now: float) -> Decision:
    if task.status is not Status.RUNNING:
        return refuse(task, "illegal-transition", "only a running task can be paused")
    held_by = f"{command.actor}: {command.reason}" if command.reason else command.actor
    after = freed(
        task,
        Status.PAUSED,
        now,
        fence=task.fence + 1,
        attempts=task.attempts - 1,
        held_by=held_by,
    )
    told = fact("task.paused", task, now, actor=command.actor, reason=command.reason)
    return Transition(task, after, (told,))


def resume(task: Task, command: c.Resume, now: float) -> Decision:
    if task.status not in (Status.PAUSED, Status.STUCK):
        return refuse(task, "illegal-transition", "only a paused or stuck task can be resumed")
    after = moved(task, Status.QUEUED, now, due_at=now, held_by=None)
    return Transition(task, after, (fact("task.resumed", task, now, actor=command.actor),))


def replay(task: Task, command: c.Replay, now: float) -> Decision:
    if task.status is not Status.FAILED:
        return refuse(task, "illegal-transition", "only a dead letter can be replayed")
    payload = command.payload_json if command.payload_json is not None else task.payload_json
    after = moved(
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
    told = fact(
        "task.replayed", task, now, actor=command.actor, edited=payload != task.payload_json
    )
    return Transition(task, after, (told,))


def edit(task: Task, command: c.Edit, now: float) -> Decision:
    if task.status not in (Status.FAILED, Status.QUEUED, Status.BLOCKED, Status.PAUSED):
        return refuse(task, "illegal-transition", "only a waiting or dead task can be edited")
    after = replace(
        task, payload_json=command.payload_json, version=task.version + 1, updated_at=now
    )
    return Transition(task, after, (fact("task.edited", task, now, actor=command.actor),))
