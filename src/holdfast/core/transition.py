"""Changes of tasks as data, and the functions that all rules share."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec.structs import replace

from holdfast.core import codec, retry
from holdfast.core.event import NewEvent
from holdfast.core.gate import at_gate
from holdfast.core.task import ENDED, LEASED, RUNNING, Failure, Status, Task, may_move

HELD: Final = "held"
"""Code of a refusal: another transaction holds the lock on the task."""


class Transition(msgspec.Struct, frozen=True, gc=False):
    """A change to write: the task before and after, and the events for the feed."""

    before: Task
    after: Task
    events: tuple[NewEvent, ...]


class Refusal(msgspec.Struct, frozen=True, gc=False):
    """Why a command changes nothing. `events` record a late result."""

    task_id: str
    code: str
    message: str
    events: tuple[NewEvent, ...] = ()
    current: Task | None = None
    reason: str = ""
    """For `not-claimable`: what prevents the claim."""


Ruling = Transition | Refusal


def with_status(task: Task, status: Status, now: float, **changes: Any) -> Task:
    _check_move(task, status)
    return replace(task, status=status, version=task.version + 1, updated_at=now, **changes)


def without_lease(task: Task, status: Status, now: float, **changes: Any) -> Task:
    """The task in another status, without a node and a lease."""
    _check_move(task, status)
    return replace(
        task,
        status=status,
        version=task.version + 1,
        updated_at=now,
        node=None,
        lease_until=None,
        progress_due_at=None,
        **changes,
    )


def _check_move(task: Task, status: Status) -> None:
    if not may_move(task.status, status):
        raise AssertionError(f"a rule tried {task.status} -> {status}")


def paused(task: Task, now: float, **changes: Any) -> Task:
    """The task of a runner, paused under a new fence. The attempt does not count. The node stays: it is
    preferred when the task goes on."""
    return with_status(
        task,
        Status.PAUSED,
        now,
        lease_until=None,
        progress_due_at=None,
        fence=task.fence + 1,
        attempts=task.attempts - 1,
        **changes,
    )


def queued(task: Task, now: float, **changes: Any) -> Task:
    """The task back in the queue, at the gate that then applies."""
    return at_gate(without_lease(task, Status.QUEUED, now, **changes), now)


def taken_away(task: Task, now: float, **changes: Any) -> Task:
    """The task of a runner, back in the queue under a new fence. The attempt does not count."""
    return queued(task, now, fence=task.fence + 1, attempts=task.attempts - 1, **changes)


def changed(task: Task, now: float, **changes: Any) -> Task:
    """The task in the same status, with another content or owner."""
    return replace(task, version=task.version + 1, updated_at=now, **changes)


def already(task: Task) -> Refusal:
    """The answer to a command that finds its effect in place."""
    return Refusal(task.id, "already-applied", "the task is already as requested", (), task)


def refuse(task: Task, code: str, message: str, *events: NewEvent) -> Refusal:
    return Refusal(task.id, code, f"task {task.id} is {task.status}: {message}", events, task)


def new_event(kind: str, task: Task, now: float, **data: Any) -> NewEvent:
    """An event about the task. `decide` writes the version into it."""
    return NewEvent(kind, now, task.id, task.type, data, task.event_project)


def with_versions(ruling: Ruling) -> Ruling:
    """The ruling whose events carry the version of the task after them."""
    if not ruling.events or ruling.events[0].version:
        return ruling
    task = ruling.after if isinstance(ruling, Transition) else ruling.current
    version = task.version if task is not None else 0
    return replace(
        ruling, events=tuple([replace(event, version=version) for event in ruling.events])
    )


def released(task: Task, actor: str, reason: str, now: float) -> NewEvent:
    """An operator took the task from its runner."""
    return new_event("task.released", task, now, node=task.node, actor=actor, reason=reason)


def signed(actor: str, reason: str) -> str:
    """The actor and the reason, as the row stores them."""
    return f"{actor}: {reason}" if reason else actor


def hold_of(actor: str, reason: str, run_id: str = "") -> str:
    """Who holds a task, as the row stores it: the actor, the reason, and the bulk run if there is one."""
    held_by = signed(actor, reason)
    return f"{held_by} ({run_id})" if run_id else held_by


def retry_pause(task: Task) -> float:
    """The pause after the failed attempt of the task, by the policy of its options."""
    options = task.options
    return retry.pause_seconds(
        task.id,
        task.attempts,
        base=options.retry_base_seconds,
        cap=options.retry_cap_seconds,
        policy=options.retry_policy,
    )


def evidence(failure: Failure) -> dict[str, Any]:
    return {"failure_json": codec.dumps(failure), "fingerprint": failure.fingerprint}


def failed(
    task: Task, failure: Failure, now: float, *, will_retry: bool, duration: float = 0.0
) -> NewEvent:
    return new_event(
        "task.failed",
        task,
        now,
        node=task.node,
        **_error(failure),
        failure_kind=failure.kind.value,
        attempt=task.attempts,
        will_retry=will_retry,
        duration=duration,
    )


def _error(failure: Failure) -> dict[str, str]:
    """The message of a failure, and the class of its exception if it has one."""
    named = {"error_type": failure.error_type} if failure.error_type else {}
    return {"error": failure.message, **named}


def to_dead_letter(
    task: Task, failure: Failure, now: float, *, duration: float = 0.0
) -> Transition:
    """Makes the task a dead letter, with the failure as evidence."""
    fence = task.fence if task.status in LEASED else task.fence + 1
    after = without_lease(
        task,
        Status.FAILED,
        now,
        finished_at=now,
        fence=fence,
        gate=None,
        held_by=None,
        assigned_to=None,
        assigned_until=None,
        **evidence(failure),
    )
    dead = new_event(
        "task.dead",
        task,
        now,
        **_error(failure),
        failure_kind=failure.kind.value,
        attempts=task.attempts,
        fingerprint=failure.fingerprint,
    )
    return Transition(
        task, after, (failed(task, failure, now, will_retry=False, duration=duration), dead)
    )


def applied(ruling: Ruling) -> Task | None:
    """The task after the command, when this command or an earlier copy of it was applied; else None."""
    match ruling:
        case Transition():
            return ruling.after
        case Refusal(code="already-applied"):
            return ruling.current
        case _:
            return None


def ended(transition: Transition) -> bool:
    """Whether this change ends the task. Its children must then be settled."""
    return transition.after.status in ENDED and transition.before.status != transition.after.status


def left_running(transition: Transition) -> bool:
    """Whether this change returns the task's permits to its limits."""
    before, after = transition.before.status, transition.after.status
    return (before is RUNNING or before in LEASED) and after is not RUNNING and after not in LEASED
