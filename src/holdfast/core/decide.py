"""What happens next to a task: (task, command, now) -> Transition or Refusal.

Promises: the only function that turns commands into changes; every change has its facts; a terminal
task never changes; a runner with an old fence changes nothing. Never: I/O, clocks, randomness.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from holdfast.core import codec, command as c, failure as failures, retry
from holdfast.core.event import Fact, with_result
from holdfast.core.task import (
    ENDED,
    TERMINAL,
    Failure,
    FailureKind,
    Status,
    Task,
    may_move,
)

LOST_BACKOFF_SECONDS: Final = 1.0
"""After the second death of a runner, so that a killer does not take worker after worker at once."""


class Transition(msgspec.Struct, frozen=True):
    """A change to write: what was, what will be, and the facts that go into the feed with it."""

    before: Task
    after: Task
    facts: tuple[Fact, ...]


class Refusal(msgspec.Struct, frozen=True):
    """Why nothing changes. `facts` keep the evidence of a late result."""

    task_id: str
    code: str
    message: str
    facts: tuple[Fact, ...] = ()
    current: Task | None = None


Decision = Transition | Refusal


def decide(task: Task, order: c.Order, now: float) -> Decision:
    """The one path for every change of an existing task."""
    command = order.command
    rule = _RUNNER_RULES.get(type(command))
    if rule is not None:
        if order.fence != task.fence or task.status is not Status.RUNNING:
            return _stale(task, order, now)
        return rule(task, command, now)
    if order.version is not None and order.version != task.version:
        return _refuse(
            task,
            "conflict",
            f"version {order.version} was expected, but it is at {task.version}: read it again",
        )
    if type(command) is c.Expire:
        return _expire(task, order.fence, now)
    return _OTHER_RULES[type(command)](task, command, now)


def claim(task: Task, *, node: str, lease_seconds: float, now: float) -> Transition:
    """Queued to running, under a new fence. The store picks which task; this says how it changes."""
    after = _moved(
        task,
        Status.RUNNING,
        now,
        attempts=task.attempts + 1,
        fence=task.fence + 1,
        node=node,
        lease_until=now + lease_seconds,
        started_at=now,
        gate=None,
    )
    return Transition(task, after, (started(after, now),))


def started(task: Task, now: float) -> Fact:
    return Fact(
        "task.started", now, task.id, task.type, {"worker_id": task.node, "attempt": task.attempts}
    )


def enqueued(task: Task, now: float) -> Fact:
    """The first fact of every task."""
    data: dict[str, Any] = {"priority": task.priority.name.lower(), "queue": task.queue}
    if task.status is Status.BLOCKED:
        data["waiting_on"] = task.waiting_on
    if task.due_at > now:
        data["due_at"] = task.due_at
    return Fact("task.enqueued", now, task.id, task.type, data)


def _moved(task: Task, status: Status, now: float, **changes: Any) -> Task:
    if not may_move(task.status, status):
        raise AssertionError(f"a rule tried {task.status} -> {status}")
    return replace(task, status=status, version=task.version + 1, updated_at=now, **changes)


def _freed(task: Task, status: Status, now: float, **changes: Any) -> Task:
    """Leaves the runner: no node, no lease."""
    return _moved(task, status, now, node=None, lease_until=None, **changes)


def _refuse(task: Task, code: str, message: str, *facts: Fact) -> Refusal:
    return Refusal(task.id, code, f"task {task.id} is {task.status}: {message}", facts, task)


def _fact(kind: str, task: Task, now: float, **data: Any) -> Fact:
    return Fact(kind, now, task.id, task.type, data)


def _complete(task: Task, command: c.Complete, now: float) -> Transition:
    result_json = command.result_json
    after = _freed(task, Status.COMPLETED, now, finished_at=now, result_json=result_json)
    data = {
        "worker_id": task.node,
        "attempt": task.attempts,
        "duration": command.duration_seconds,
    }
    fact = Fact("task.completed", now, task.id, task.type, with_result(data, result_json))
    return Transition(task, after, (fact,))


def _snooze(task: Task, command: c.Snooze, now: float) -> Transition:
    due_at = now + command.delay_seconds
    after = _freed(task, Status.QUEUED, now, due_at=due_at, attempts=task.attempts - 1)
    fact = _fact("task.snoozed", task, now, due_at=due_at, reason=command.reason)
    return Transition(task, after, (fact,))


def _cancel(task: Task, command: c.Cancel, now: float) -> Transition:
    after = _freed(task, Status.ABORTED, now, finished_at=now)
    fact = _fact("task.aborted", task, now, actor="handler", reason=command.reason)
    return Transition(task, after, (fact,))


def _release(task: Task, command: c.Release, now: float) -> Transition:
    attempts, fence = task.attempts - 1, task.fence + 1
    after = _freed(task, Status.QUEUED, now, attempts=attempts, fence=fence)
    return Transition(task, after, (_fact("task.released", task, now, reason=command.reason),))


def _report(task: Task, command: c.Report, now: float) -> Transition:
    """Progress is not a transition of status, but it is fenced and has its fact like one."""
    changes: dict[str, str] = {}
    facts: list[Fact] = []
    if command.progress_json is not None:
        changes["progress_json"] = command.progress_json
        facts.append(_fact("task.progress", task, now, progress=codec.loads(command.progress_json)))
    if command.checkpoint_json is not None:
        changes["checkpoint_json"] = command.checkpoint_json
        facts.append(_fact("task.checkpoint", task, now))
    after = replace(task, version=task.version + 1, updated_at=now, **changes)
    return Transition(task, after, tuple(facts))


def _fail(task: Task, command: c.Fail, now: float) -> Transition:
    failure = replace(command.failure, node=task.node)
    if command.final or task.attempts >= task.max_attempts:
        return _bury(task, failure, now, duration=command.duration_seconds)
    options = task.options
    delay = retry.delay_seconds(
        task.attempts,
        base=options.retry_base_seconds,
        cap=options.retry_cap_seconds,
        jitter=retry.unit_jitter(task.id, task.attempts),
    )
    after = _freed(task, Status.QUEUED, now, due_at=now + delay, **_evidence(failure))
    fact = _failed(task, failure, now, will_retry=True, duration=command.duration_seconds)
    fact.data["next_retry_at"] = now + delay
    return Transition(task, after, (fact,))


def _evidence(failure: Failure) -> dict[str, Any]:
    return {"failure_json": codec.dumps(failure), "fingerprint": failure.fingerprint}


def _failed(
    task: Task, failure: Failure, now: float, *, will_retry: bool, duration: float = 0.0
) -> Fact:
    return _fact(
        "task.failed",
        task,
        now,
        worker_id=task.node,
        error=failure.message,
        failure_kind=failure.kind.value,
        attempt=task.attempts,
        will_retry=will_retry,
        duration=duration,
    )


def _bury(task: Task, failure: Failure, now: float, *, duration: float = 0.0) -> Transition:
    """Into the dead letters: rests in failed, with its evidence."""
    fence = task.fence if task.status is Status.RUNNING else task.fence + 1
    after = _freed(
        task, Status.FAILED, now, finished_at=now, fence=fence, gate=None, **_evidence(failure)
    )
    dead = _fact(
        "task.dead",
        task,
        now,
        error=failure.message,
        failure_kind=failure.kind.value,
        attempts=task.attempts,
        fingerprint=failure.fingerprint,
    )
    return Transition(
        task, after, (_failed(task, failure, now, will_retry=False, duration=duration), dead)
    )


def _stale(task: Task, order: c.Order, now: float) -> Decision:
    """A runner that lost its lease. Its own earlier write is told from somebody else's by the fence:
    whoever takes a task away raises it."""
    command = order.command
    if order.fence == task.fence and _is_echo(task, command):
        return Refusal(task.id, "already-applied", "the same command was applied before", (), task)
    facts: tuple[Fact, ...] = ()
    if isinstance(command, c.Complete | c.Fail):
        data: dict[str, Any] = {"fence": order.fence, "current_fence": task.fence}
        if isinstance(command, c.Complete):
            with_result(data, command.result_json)
        else:
            data["error"] = command.failure.message
        facts = (Fact("task.late", now, task.id, task.type, data),)
    return _refuse(
        task,
        "lease-lost",
        f"the runner's fence {order.fence} is old (now {task.fence}); its result is kept as evidence",
        *facts,
    )


def _is_echo(task: Task, command: c.Command) -> bool:
    """Whether the task already is what this command would make of it."""
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


def _expire(task: Task, fence: int | None, now: float) -> Decision:
    if task.status is not Status.RUNNING or task.lease_until is None:
        return _refuse(task, "conflict", "it has no lease to expire")
    if fence != task.fence or task.lease_until > now:
        return _refuse(task, "conflict", "its lease was renewed")
    deaths = task.deaths + 1
    dying = replace(task, deaths=deaths, attempts=task.attempts - 1)
    if deaths >= task.options.max_deaths:
        message = f"its runner died {deaths} times; the last one was {task.node}"
        failure = replace(failures.plain(task.type, FailureKind.LOST, message), node=task.node)
        buried = _bury(dying, failure, now)
        return replace(buried, before=task, after=replace(buried.after, fence=task.fence + 1))
    due_at = now if deaths == 1 else now + LOST_BACKOFF_SECONDS * 2 ** (deaths - 2)
    after = _freed(dying, Status.QUEUED, now, due_at=due_at, fence=task.fence + 1)
    lost = _fact("task.lost", task, now, worker_id=task.node, deaths=deaths, next_retry_at=due_at)
    return Transition(task, after, (lost,))


def _settle(task: Task, command: c.Settle, now: float) -> Decision:
    if task.status is not Status.BLOCKED:
        return _refuse(task, "conflict", "it waits for nothing")
    if not command.satisfied:
        message = f"dependency {command.parent_id} {command.parent_status}: {command.message}"
        failure = failures.plain(
            task.type, FailureKind.DEPENDENCY, message, cause=command.parent_id
        )
        grouped = failures.fingerprint(task.type, "dependency", command.message)
        return _bury(task, replace(failure, fingerprint=grouped), now)
    if task.waiting_on > 1:
        after = replace(
            task, waiting_on=task.waiting_on - 1, version=task.version + 1, updated_at=now
        )
        return Transition(task, after, ())
    after = _moved(task, Status.QUEUED, now, waiting_on=0, due_at=max(task.due_at, now))
    return Transition(task, after, (_fact("task.unblocked", task, now, by=command.parent_id),))


def _revive(task: Task, command: c.Revive, now: float) -> Decision:
    failure = task.failure
    if (
        task.status is not Status.FAILED
        or failure is None
        or failure.kind is not FailureKind.DEPENDENCY
        or failure.cause != command.parent_id
    ):
        return _refuse(task, "conflict", f"it did not fail with {command.parent_id}")
    after = _moved(
        task,
        Status.BLOCKED,
        now,
        waiting_on=command.waiting_on,
        finished_at=None,
        attempts=0,
        deaths=0,
    )
    return Transition(task, after, (_fact("task.revived", task, now, by=command.parent_id),))


def _abort(task: Task, command: c.Abort, now: float) -> Decision:
    if task.status in TERMINAL:
        return _refuse(task, "illegal-transition", "it has ended and will not change")
    after = _freed(
        task, Status.ABORTED, now, finished_at=now, fence=task.fence + 1, gate=None, waiting_on=0
    )
    fact = _fact("task.aborted", task, now, actor=command.actor, reason=command.reason)
    return Transition(task, after, (fact,))


def _pause(task: Task, command: c.Pause, now: float) -> Decision:
    if task.status is not Status.RUNNING:
        return _refuse(task, "illegal-transition", "only a running task can be paused")
    held_by = f"{command.actor}: {command.reason}" if command.reason else command.actor
    after = _freed(
        task,
        Status.PAUSED,
        now,
        fence=task.fence + 1,
        attempts=task.attempts - 1,
        held_by=held_by,
    )
    fact = _fact("task.paused", task, now, actor=command.actor, reason=command.reason)
    return Transition(task, after, (fact,))


def _resume(task: Task, command: c.Resume, now: float) -> Decision:
    if task.status not in (Status.PAUSED, Status.STUCK):
        return _refuse(task, "illegal-transition", "only a paused or stuck task can be resumed")
    after = _moved(task, Status.QUEUED, now, due_at=now, held_by=None)
    return Transition(task, after, (_fact("task.resumed", task, now, actor=command.actor),))


def _replay(task: Task, command: c.Replay, now: float) -> Decision:
    if task.status is not Status.FAILED:
        return _refuse(task, "illegal-transition", "only a dead letter can be replayed")
    payload = command.payload_json if command.payload_json is not None else task.payload_json
    after = _moved(
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
    fact = _fact(
        "task.replayed", task, now, actor=command.actor, edited=payload != task.payload_json
    )
    return Transition(task, after, (fact,))


def _edit(task: Task, command: c.Edit, now: float) -> Decision:
    if task.status not in (Status.FAILED, Status.QUEUED, Status.BLOCKED, Status.PAUSED):
        return _refuse(task, "illegal-transition", "only a waiting or dead task can be edited")
    after = replace(
        task, payload_json=command.payload_json, version=task.version + 1, updated_at=now
    )
    return Transition(task, after, (_fact("task.edited", task, now, actor=command.actor),))


def ended(transition: Transition) -> bool:
    """Whether this change ends the task, so that its dependents must be settled."""
    return transition.after.status in ENDED and transition.before.status not in ENDED


def left_running(transition: Transition) -> bool:
    """Whether this change gives back what the task held of its limits."""
    running = Status.RUNNING
    return transition.before.status is running and transition.after.status is not running


Rule = Callable[[Task, Any, float], Decision]
# By exact type: a table is many times faster here than a chain of instance checks, and a test checks
# that it covers every command.
_RUNNER_RULES: Final[dict[type, Rule]] = {
    c.Complete: _complete,
    c.Fail: _fail,
    c.Snooze: _snooze,
    c.Cancel: _cancel,
    c.Release: _release,
    c.Report: _report,
}
_OTHER_RULES: Final[dict[type, Rule]] = {
    c.Settle: _settle,
    c.Revive: _revive,
    c.Abort: _abort,
    c.Pause: _pause,
    c.Resume: _resume,
    c.Replay: _replay,
    c.Edit: _edit,
}
