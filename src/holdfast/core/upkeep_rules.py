"""How a task changes without a runner or operator: its lease expires, its parents end or are revived."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from holdfast.core import command as c, failure as failures
from holdfast.core.task import Failure, FailureKind, Status, Task
from holdfast.core.transition import (
    Ruling,
    Transition,
    evidence,
    new_event,
    refuse,
    to_dead_letter,
    with_status,
    without_lease,
)

LOST_BACKOFF_SECONDS: Final = 1.0
"""Backoff from the second death on, so that a task that kills its runner does not kill all workers at
once."""


def expire(task: Task, fence: int | None, now: float) -> Ruling:
    """The lease has ended: its runner is taken for dead. A death counts in `deaths` and costs no attempt."""
    if task.status is not Status.RUNNING or task.lease_until is None:
        return refuse(task, "conflict", "it has no lease to expire")
    if fence != task.fence or task.lease_until > now:
        return refuse(task, "conflict", "its lease was renewed, or it runs under another fence")
    deaths = task.deaths + 1
    dying = replace(task, deaths=deaths, attempts=task.attempts - 1)
    if deaths >= task.options.max_deaths:
        message = (
            f"its runner stopped answering {deaths} times (it died, or its event loop was blocked for longer "
            f"than the lease); the last one was {task.node}"
        )
        failure = replace(failures.plain(task.type, FailureKind.LOST, message), node=task.node)
        dead = to_dead_letter(dying, failure, now)
        return replace(dead, before=task, after=replace(dead.after, fence=task.fence + 1))
    due_at = now if deaths == 1 else now + LOST_BACKOFF_SECONDS * 2 ** (deaths - 2)
    after = without_lease(dying, Status.QUEUED, now, due_at=due_at, fence=task.fence + 1)
    lost = new_event("task.lost", task, now, node=task.node, deaths=deaths, next_retry_at=due_at)
    return Transition(task, after, (lost,))


def settle(task: Task, command: c.Settle, now: float) -> Ruling:
    if task.status is not Status.BLOCKED:
        return refuse(task, "conflict", "it has no open dependency")
    if not command.satisfied:
        status = command.parent_status.value
        return to_dead_letter(
            task, _dependency_failure(task, command.parent_id, status, command.message), now
        )
    if task.waiting_on > 1:
        after = replace(
            task, waiting_on=task.waiting_on - 1, version=task.version + 1, updated_at=now
        )
        return Transition(task, after, ())
    after = with_status(task, Status.QUEUED, now, waiting_on=0, due_at=max(task.due_at, now))
    return Transition(task, after, (new_event("task.unblocked", task, now, by=command.parent_id),))


def revive(task: Task, command: c.Revive, now: float) -> Ruling:
    if not failed_with_parent(task):
        return refuse(task, "conflict", "it did not fail with a task that it depends on")
    after = with_status(
        task,
        Status.BLOCKED,
        now,
        waiting_on=command.waiting_on,
        finished_at=None,
        attempts=0,
        deaths=0,
    )
    return Transition(task, after, (new_event("task.revived", task, now, by=command.parent_id),))


def change_cause(task: Task, command: c.ChangeCause, now: float) -> Ruling:
    if not failed_with_parent(task):
        return refuse(task, "conflict", "it did not fail with a task that it depends on")
    failure = _dependency_failure(task, command.parent_id, command.state, command.message)
    after = replace(task, version=task.version + 1, updated_at=now, **evidence(failure))
    event = new_event("task.blamed", task, now, cause=command.parent_id, error=failure.message)
    return Transition(task, after, (event,))


def failed_with_parent(task: Task) -> bool:
    """Whether the task is a dead letter only because a parent failed or was aborted."""
    failure = task.failure if task.status is Status.FAILED else None
    return failure is not None and failure.kind is FailureKind.DEPENDENCY


def _dependency_failure(task: Task, parent_id: str, state: str, message: str) -> Failure:
    text = f"dependency {parent_id} {state}: {message}"
    failure = failures.plain(task.type, FailureKind.DEPENDENCY, text, cause=parent_id)
    return replace(failure, fingerprint=failures.fingerprint(task.type, "dependency", message))
