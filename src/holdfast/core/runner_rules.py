"""How the commands of a runner change its task. `decide` has checked the fence, except for `stale`."""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from holdfast.core import codec, command as c, retry
from holdfast.core.event import NewEvent, with_result
from holdfast.core.task import COMPLETED, Status, Task
from holdfast.core.transition import (
    Refusal,
    Ruling,
    Transition,
    evidence,
    failed,
    new_event,
    refuse,
    signed,
    to_dead_letter,
    without_lease,
)

HANDLER: Final = "handler"
"""The actor of a task that cancels itself."""


def complete(task: Task, command: c.Complete, now: float) -> Transition:
    result_json = command.result_json
    after = without_lease(task, COMPLETED, now, finished_at=now, result_json=result_json)
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
    after = without_lease(task, Status.QUEUED, now, due_at=due_at, attempts=task.attempts - 1)
    event = new_event("task.snoozed", task, now, due_at=due_at, reason=command.reason)
    return Transition(task, after, (event,))


def cancel(task: Task, command: c.Cancel, now: float) -> Transition:
    held_by = signed(HANDLER, command.reason)
    after = without_lease(task, Status.ABORTED, now, finished_at=now, held_by=held_by)
    event = new_event("task.aborted", task, now, actor=HANDLER, reason=command.reason)
    return Transition(task, after, (event,))


def release(task: Task, command: c.Release, now: float) -> Transition:
    attempts, fence = task.attempts - 1, task.fence + 1
    after = without_lease(task, Status.QUEUED, now, attempts=attempts, fence=fence)
    return Transition(task, after, (new_event("task.released", task, now, reason=command.reason),))


def report(task: Task, command: c.Report, now: float) -> Ruling:
    """Progress or a checkpoint. The status stays, but the report is fenced and has its events."""
    if _was_reported(task, command):
        return Refusal(task.id, "already-applied", "the same report was applied before", (), task)
    changes: dict[str, str] = {}
    events: list[NewEvent] = []
    if command.progress_json is not None:
        changes["progress_json"] = command.progress_json
        events.append(
            new_event("task.progress", task, now, progress=codec.loads(command.progress_json))
        )
    if command.checkpoint_json is not None:
        changes["checkpoint_json"] = command.checkpoint_json
        events.append(new_event("task.checkpoint", task, now))
    after = replace(task, version=task.version + 1, updated_at=now, **changes)
    return Transition(task, after, tuple(events))


def fail(task: Task, command: c.Fail, now: float) -> Transition:
    failure = replace(command.failure, node=task.node)
    if command.final or task.attempts >= task.max_attempts:
        return to_dead_letter(task, failure, now, duration=command.duration_seconds)
    options = task.options
    delay = retry.delay_seconds(
        task.attempts,
        base=options.retry_base_seconds,
        cap=options.retry_cap_seconds,
        jitter=retry.unit_jitter(task.id, task.attempts),
    )
    after = without_lease(task, Status.QUEUED, now, due_at=now + delay, **evidence(failure))
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


def _was_reported(task: Task, command: c.Report) -> bool:
    """Whether the row has this report already: its version is newer than the runner's, and the values are
    equal. Under one fence only the runner's reports change the row."""
    version = command.seen_version
    return (
        version is not None
        and task.version > version
        and command.progress_json in (None, task.progress_json)
        and command.checkpoint_json in (None, task.checkpoint_json)
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
