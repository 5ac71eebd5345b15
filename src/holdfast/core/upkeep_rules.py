"""How a task changes without a runner or operator: its lease expires, its parents end or are revived."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from holdfast.core import command as c, failure as failures, gate, runner_rules, start_once
from holdfast.core.affinity import preferring, reservation
from holdfast.core.event import PAUSED
from holdfast.core.loop_block import LoopBlock
from holdfast.core.task import LEASED, TERMINAL, Failure, FailureKind, Status, Task
from holdfast.core.transition import (
    Ruling,
    Transition,
    already,
    changed,
    evidence,
    new_event,
    queued,
    refuse,
    to_dead_letter,
    with_status,
)

SILENT: Final = "silent"
"""The runner of a lost task did not answer: it died, or could not reach the store or a gateway."""
BLOCKED: Final = "blocked"
"""The runner of a lost task is alive, but its event loop is blocked."""
LOST_BACKOFF_SECONDS: Final = 1.0
"""Backoff from the second death on, so that a task that kills its runner does not kill all workers at
once."""


def expire(task: Task, command: c.Expire, fence: int | None, now: float) -> Ruling:
    """The lease has ended: its runner is taken for dead, or reports that its event loop is blocked. A death
    counts in `deaths` and costs no attempt."""
    if task.status not in LEASED or task.lease_until is None:
        return refuse(task, "conflict", "it has no lease to expire")
    if fence != task.fence or task.lease_until > now:
        return refuse(task, "conflict", "its lease was renewed, or it runs under another fence")
    if task.options.lost_after_seconds is not None:
        return start_once.expire(task, now)
    deaths = task.deaths + 1
    dying = replace(task, deaths=deaths, attempts=task.attempts - 1)
    block = command.blocks.get(task.node or "")
    if deaths >= task.options.max_deaths:
        message = _lost_message(task, deaths, block)
        failure = replace(failures.plain(task.type, FailureKind.LOST, message), node=task.node)
        dead = to_dead_letter(dying, failure, now)
        dead.events[-1].data.update(_runner(block))
        return replace(dead, before=task, after=replace(dead.after, fence=task.fence + 1))
    due_at = now if deaths == 1 else now + LOST_BACKOFF_SECONDS * 2 ** (deaths - 2)
    after = queued(dying, now, due_at=due_at, fence=task.fence + 1)
    lost = new_event("task.lost", task, now, node=task.node, deaths=deaths, next_retry_at=due_at)
    lost.data.update(_runner(block))
    return Transition(task, after, (lost,))


def _runner(block: LoopBlock | None) -> dict[str, str]:
    """What is known of the runner of a lost task."""
    if block is None:
        return {"runner": SILENT}
    return {"runner": BLOCKED} | ({"blocked_by": block.task_id} if block.task_id else {})


def _lost_message(task: Task, deaths: int, block: LoopBlock | None) -> str:
    if block is not None:
        return (
            f"its runner lost its lease {deaths} times; the last one, {task.node}, is alive, but {block}: "
            "await long operations, or make the handler a plain function, which runs in a thread"
        )
    return (
        f"its runner stopped answering {deaths} times (it died, or it could not reach the store or a "
        f"gateway); the last one was {task.node}"
    )


def admit(task: Task, command: c.Admit, now: float) -> Ruling:
    """A blocked task without open dependencies is queued."""
    if task.status is not Status.BLOCKED or task.waiting_on:
        return refuse(task, "conflict", "it does not wait to be admitted")
    after = queued(task, now, due_at=max(task.due_at, now))
    event = new_event("task.unblocked", task, now)
    if task.held_by is not None:
        event.data["desired"] = PAUSED
    return Transition(task, after, (event,))


def stall(task: Task, command: c.Stall, now: float) -> Ruling:
    """The deadline for progress has passed."""
    due_at = task.progress_due_at
    if task.status is not Status.RUNNING or due_at is None or due_at > now:
        return refuse(task, "conflict", "it has no deadline for progress, or reported in time")
    return runner_rules.stuck(
        task, now, reason=f"no progress for {task.progress_timeout_seconds:g} s"
    )


def unassign(task: Task, command: c.Unassign, now: float) -> Ruling:
    """The time of an assignment has passed, or the preferred node is gone. In a status in which the task
    waits, its gate is judged again."""
    is_open = command.is_gone and gate.preferred_node(task.gate) is not None
    if task.status in TERMINAL:
        return refuse(task, "illegal-transition", "it has ended")
    if task.assigned_to is None or (gate.is_assigned(task, now) and not is_open):
        return refuse(task, "conflict", "it has no assignment that has ended")
    after = changed(task, now, assigned_to=None, assigned_until=None)
    if task.status is Status.QUEUED and not gate.is_limit(task.gate):
        after = gate.at_gate(after, now)
    return Transition(
        task, after, (new_event("task.unassigned", task, now, node=task.assigned_to),)
    )


def wake(task: Task, command: c.Wake, now: float) -> Ruling:
    """The decision that the task waited for has ended. A task that is held too stays paused."""
    if task.status is not Status.PAUSED or gate.decision_of(task) != command.decision_id:
        return already(task)
    if task.held_by is not None:
        return Transition(task, changed(task, now, gate=None), ())
    reserved = reservation(task, command.affinity, now)
    data = {"actor": command.actor, "decision_id": command.decision_id} | reserved
    event = new_event("task.resumed", task, now, **data)
    after = preferring(queued(task, now, due_at=now, **reserved), reserved)
    return Transition(task, after, (event,))


def settle(task: Task, command: c.Settle, now: float) -> Ruling:
    if task.status is not Status.BLOCKED:
        return refuse(task, "conflict", "it has no open dependency")
    if not command.satisfied:
        status = command.parent_status.value
        return to_dead_letter(task, _dependency_failure(task, status, command), now)
    if task.waiting_on > 1:
        return Transition(task, changed(task, now, waiting_on=task.waiting_on - 1), ())
    after = queued(task, now, waiting_on=0, due_at=max(task.due_at, now))
    event = new_event("task.unblocked", task, now, by=command.parent_id)
    if task.held_by is not None:
        event.data["desired"] = PAUSED
    return Transition(task, after, (event,))


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
    failure = _dependency_failure(task, command.state, command)
    after = changed(task, now, **evidence(failure))
    event = new_event("task.blamed", task, now, cause=command.parent_id, error=failure.message)
    return Transition(task, after, (event,))


def failed_with_parent(task: Task) -> bool:
    """Whether the task is a dead letter only because a parent failed or was aborted."""
    failure = task.failure if task.status is Status.FAILED else None
    return failure is not None and failure.kind is FailureKind.DEPENDENCY


def parent_failed_with(task: Task) -> str | None:
    """The parent that a dead letter failed with. None: it failed by itself, or is no dead letter."""
    return task.failure.cause if failed_with_parent(task) and task.failure is not None else None


def _dependency_failure(task: Task, state: str, command: c.Settle | c.ChangeCause) -> Failure:
    """The failure of a task whose parent did not complete. It is in the group of that parent's failure."""
    text = f"dependency {command.parent_id} {state}: {command.message}"
    failure = failures.plain(task.type, FailureKind.DEPENDENCY, text, cause=command.parent_id)
    group = failures.fingerprint(task.type, "dependency", command.message)
    return replace(failure, fingerprint=command.fingerprint or group)
