"""How the commands of a runner change its task. `decide` has checked the fence, except for `stale`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from msgspec.structs import replace

from holdfast.core import codec, command as c, edits, gate
from holdfast.core.event import NewEvent, with_result
from holdfast.core.task import COMPLETED, Status, Task
from holdfast.core.transition import (
    Refusal,
    Ruling,
    Transition,
    already,
    evidence,
    failed,
    new_event,
    paused,
    queued,
    refuse,
    retry_pause,
    signed,
    taken_away,
    to_dead_letter,
    with_status,
    without_lease,
)

HANDLER: Final = "handler"
"""The actor of a task that cancels itself."""


def complete(task: Task, command: c.Complete, now: float) -> Transition:
    """As `without_lease`, in one `replace`, because it runs for each task that succeeds."""
    result_json = command.result_json
    after = replace(
        task,
        status=COMPLETED,
        version=task.version + 1,
        updated_at=now,
        finished_at=now,
        result_json=result_json,
        node=None,
        lease_until=None,
        progress_due_at=None,
    )
    data = {
        "node": task.node,
        "attempt": task.attempts,
        "duration": command.duration_seconds,
    }
    with_result(data, result_json)
    project = task.event_project
    event = NewEvent("task.completed", now, task.id, task.type, data, project, after.version)
    return Transition(task, after, (event,))


def snooze(task: Task, command: c.Snooze, now: float) -> Transition:
    due_at = now + command.delay_seconds
    after = queued(task, now, due_at=due_at, attempts=task.attempts - 1)
    event = new_event("task.snoozed", task, now, due_at=due_at, reason=command.reason)
    return Transition(task, after, (event,))


def cancel(task: Task, command: c.Cancel, now: float) -> Transition:
    held_by = signed(HANDLER, command.reason)
    after = without_lease(task, Status.ABORTED, now, finished_at=now, held_by=held_by)
    event = new_event("task.aborted", task, now, actor=HANDLER, reason=command.reason)
    return Transition(task, after, (event,))


def release(task: Task, command: c.Release, now: float) -> Transition:
    event = new_event("task.released", task, now, reason=command.reason)
    return Transition(task, taken_away(task, now), (event,))


def report(task: Task, command: c.Report, now: float) -> Ruling:
    """Progress or a checkpoint. The status and the version stay, but the report is fenced and has its events.
    A report that equals what the row has is a repeat, and changes nothing."""
    changes: dict[str, Any] = {}
    events: list[NewEvent] = []
    progress = _progress(task, command)
    if progress not in (None, task.progress_json):
        changes["progress_json"] = progress
        events.append(new_event("task.progress", task, now, progress=codec.loads(progress)))
    if command.checkpoint_json not in (None, task.checkpoint_json):
        changes["checkpoint_json"] = command.checkpoint_json
        if command.point is None:
            events.append(new_event("task.checkpoint", task, now))
    if command.point is not None:
        events.append(_created(task, command.point, now))
    if not events:
        return already(task)
    if task.progress_timeout_seconds is not None:
        changes["progress_due_at"] = now + task.progress_timeout_seconds
    return Transition(task, replace(task, updated_at=now, **changes), tuple(events))


def _created(task: Task, point: c.NamedPoint, now: float) -> NewEvent:
    data = {"checkpoint_id": point.id, "type": point.type, "note": point.note}
    return new_event("checkpoint.created", task, now, node=task.node, fence=task.fence, **data)


def _progress(task: Task, command: c.Report) -> str | None:
    """The progress after the report. One that merges changes the fields it has; an empty text removes one."""
    text = command.progress_json
    if text is None or not command.merge:
        return text
    whole = codec.loads(edits.merged(task.progress_json or "{}", text) or text)
    if not isinstance(whole, dict):
        return text
    return codec.dumps({field: value for field, value in whole.items() if value != ""})


def get_stuck(task: Task, command: c.GetStuck, now: float) -> Transition:
    return stuck(task, now, reason=command.reason)


def stuck(task: Task, now: float, *, reason: str) -> Transition:
    """Running to stuck. The runner keeps its claim: its fence, lease and permits."""
    after = with_status(task, Status.STUCK, now, progress_due_at=None)
    event = new_event("task.stuck", task, now, node=task.node, reason=reason)
    return Transition(task, after, (event,))


def suspend(task: Task, command: c.Suspend, now: float) -> Transition:
    decision_id = command.decision_id
    after = paused(
        task,
        now,
        gate=None if decision_id is None else gate.of_decision(decision_id),
        held_by=signed(command.actor, command.reason) if decision_id is None else None,
    )
    data: dict[str, Any] = {"actor": command.actor, "reason": command.reason}
    if decision_id is not None:
        data["decision_id"] = decision_id
    return Transition(task, after, (new_event("task.paused", task, now, **data),))


def while_stuck(
    task: Task, command: c.Command, rule: Callable[[Task, Any, float], Ruling], now: float
) -> Ruling:
    """A command of the runner of a stuck task. The task runs again, then the command applies."""
    if isinstance(command, c.GetStuck):
        return already(task)
    timeout = task.progress_timeout_seconds
    due_at = None if timeout is None else now + timeout
    running = with_status(task, Status.RUNNING, now, progress_due_at=due_at)
    ruling = rule(running, command, now)
    if not isinstance(ruling, Transition):
        if not (isinstance(command, c.Report) and command.is_running):
            return already(task)
        ruling = Transition(task, running, ())
    return Transition(task, ruling.after, (new_event("task.unstuck", task, now), *ruling.events))


def fail(task: Task, command: c.Fail, now: float) -> Transition:
    failure = replace(command.failure, node=task.node)
    if command.final or task.attempts >= task.max_attempts:
        return to_dead_letter(task, failure, now, duration=command.duration_seconds)
    given = command.retry_after_seconds
    delay = retry_pause(task) if given is None else given
    after = queued(task, now, due_at=now + delay, **evidence(failure))
    event = failed(task, failure, now, will_retry=True, duration=command.duration_seconds)
    event.data["next_retry_at"] = now + delay
    return Transition(task, after, (event,))


def stale(task: Task, instruction: c.Instruction, now: float) -> Ruling:
    """A command of a runner that does not hold the task. Every takeover raises the fence, so an equal
    fence means that this is a repeat of the runner's own command."""
    command = instruction.command
    if instruction.fence == task.fence and _is_repeat(task, command):
        return Refusal(task.id, "already-applied", "the same command was applied before", (), task)
    events: tuple[NewEvent, ...] = ()
    if isinstance(command, c.Complete | c.Fail):
        data: dict[str, Any] = {"fence": instruction.fence, "current_fence": task.fence}
        if instruction.node is not None:
            data["node"] = instruction.node
        if isinstance(command, c.Complete):
            with_result(data, command.result_json)
        else:
            data["error"] = command.failure.message
        events = (new_event("task.late", task, now, **data),)
    return refuse(
        task,
        "lease-lost",
        f"the runner's fence {instruction.fence} is old (now {task.fence}); "
        "its result is recorded as task.late",
        *events,
    )


def _is_repeat(task: Task, command: c.Command) -> bool:
    """Whether the task is already in the status that this command leads to."""
    match command:
        case c.Complete():
            return task.status is Status.COMPLETED
        case c.Fail():
            return task.status in (Status.FAILED, Status.QUEUED)
        case c.Snooze():
            return task.status is Status.QUEUED
        case c.Cancel():
            return task.status is Status.ABORTED
        case _:
            return False
