"""How a command changes a task: (task, instruction, now) -> Transition or Refusal.

Promises: no other function turns commands into changes; every change has its events, except that a
dependency is counted down; a terminal task never changes; a runner with an old fence changes nothing.
Renewals of leases and waits at a gate are not commands: they change no status.
Never: I/O, clocks, randomness.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from holdfast.core import (
    command as c,
    operator_rules,
    pinned_rules,
    runner_rules,
    takeover_rules,
    upkeep_rules,
)
from holdfast.core.event import NewEvent
from holdfast.core.task import LEASED, PRIORITY_NAMES, RUNNING, Status, Task
from holdfast.core.transition import (
    Refusal,
    Ruling,
    Transition,
    applied,
    ended,
    left_running,
    refuse,
    with_status,
    with_versions,
)

__all__ = [
    "Refusal",
    "Ruling",
    "Transition",
    "applied",
    "claim",
    "decide",
    "ended",
    "enqueued",
    "left_running",
]


def decide(task: Task, instruction: c.Instruction, now: float) -> Ruling:
    """Rules on an instruction. Every change of status goes through here, except a claim (`claim`). A runner
    is identified by its fence, so an expected `version` does not count for its commands."""
    return with_versions(_rule(task, instruction, now))


def _rule(task: Task, instruction: c.Instruction, now: float) -> Ruling:
    command = instruction.command
    rule = _RUNNER.get(type(command))
    if rule is not None:
        if instruction.fence != task.fence or task.status not in LEASED:
            return runner_rules.stale(task, instruction, now)
        if task.status is not RUNNING:
            return runner_rules.while_stuck(task, command, rule, now)
        return rule(task, command, now)
    if instruction.version is not None and instruction.version != task.version:
        return refuse(
            task,
            "version-conflict",
            f"version {instruction.version} was expected, but it is at {task.version}: read it again",
        )
    if type(command) is c.Expire:
        return upkeep_rules.expire(task, command, instruction.fence, now)
    if type(command) in pinned_rules.OPERATOR_COMMANDS and task.options.pinned:
        refusal = pinned_rules.refusal(task, command)
        if refusal is not None:
            return refusal
    return _OTHERS[type(command)](task, command, now)


def claim(
    task: Task,
    *,
    node: str,
    lease_seconds: float,
    now: float,
    claim_id: str | None = None,
) -> Transition:
    """Queued to running, under a new fence. The store selects the task, so there is nothing to rule on. A
    claim with an id has its own lease duration."""
    timeout = task.progress_timeout_seconds
    is_pinned = task.assigned_to is not None and task.options.pinned
    after = with_status(
        task,
        RUNNING,
        now,
        attempts=task.attempts + 1,
        fence=task.fence + 1,
        node=node,
        lease_until=now + lease_seconds,
        started_at=now,
        gate=None,
        claim_id=claim_id,
        lease_seconds=None if claim_id is None else lease_seconds,
        progress_json=None,
        progress_due_at=None if timeout is None else now + timeout,
        assigned_to=task.assigned_to if is_pinned else None,
        assigned_until=None,
    )
    return Transition(task, after, (started(after, now),))


def started(task: Task, now: float) -> NewEvent:
    data = {"node": task.node, "attempt": task.attempts, "fence": task.fence}
    return NewEvent("task.started", now, task.id, task.type, data, task.event_project, task.version)


def enqueued(task: Task, now: float) -> NewEvent:
    """The first event of every task."""
    data: dict[str, Any] = {"priority": PRIORITY_NAMES[task.priority], "queue": task.queue}
    if task.status is Status.BLOCKED:
        data["waiting_on"] = task.waiting_on
    if task.due_at > now:
        data["due_at"] = task.due_at
    if task.tags_json is not None:
        data["tags"] = list(task.tags)
    project = task.event_project
    return NewEvent("task.enqueued", now, task.id, task.type, data, project, task.version)


CommandRule = Callable[[Task, Any, float], Ruling]
# By exact type: a table is many times faster than a chain of isinstance checks. A test checks that the
# tables and `Expire` cover every command.
_RUNNER: Final[dict[type, CommandRule]] = {
    c.Complete: runner_rules.complete,
    c.Snooze: runner_rules.snooze,
    c.Cancel: runner_rules.cancel,
    c.Release: runner_rules.release,
    c.Report: runner_rules.report,
    c.Fail: runner_rules.fail,
    c.GetStuck: runner_rules.get_stuck,
    c.Suspend: runner_rules.suspend,
}
_OTHERS: Final[dict[type, CommandRule]] = {
    c.Admit: upkeep_rules.admit,
    c.Stall: upkeep_rules.stall,
    c.Unassign: upkeep_rules.unassign,
    c.Wake: upkeep_rules.wake,
    c.Settle: upkeep_rules.settle,
    c.Revive: upkeep_rules.revive,
    c.ChangeCause: upkeep_rules.change_cause,
    c.Abort: operator_rules.abort,
    c.Pause: operator_rules.pause,
    c.Resume: operator_rules.resume,
    c.Replay: operator_rules.replay,
    c.Edit: operator_rules.edit,
    c.RetryTask: operator_rules.retry,
    c.Reassign: takeover_rules.reassign,
    c.Unlock: takeover_rules.unlock,
    c.Force: takeover_rules.force,
}
