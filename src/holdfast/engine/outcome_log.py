"""One log line for each attempt that did not succeed, in the logger `holdfast.tasks`.

Promises: a line names the task, its type, its attempt, the class and message of the error, and what
happens next. A failure that is retried is a warning; a dead letter is an error with its traceback, and
the dependents that fail because of it have no lines. Text of handlers is cleaned to one printable line. The
same facts are fields of the record (`extra`), which structlog, JSON formatters and log collectors take as
they are; `outcome` says what happens next.
Never: logs a payload, a result, or a successful attempt.
"""

from __future__ import annotations

import logging
from typing import Final

from holdfast.core.command import Fail, Instruction
from holdfast.core.decide import Refusal, Ruling, Transition, applied
from holdfast.core.loop_block import LoopBlock
from holdfast.core.task import Failure, Status, Task
from holdfast.core.text import lines, one_line

MESSAGE_CHARS_MAX: Final = 300
log = logging.getLogger("holdfast.tasks")


def ended(task: Task, instruction: Instruction, ruling: Ruling) -> None:
    """Logs the outcome of a run after the store has answered."""
    if type(instruction.command) is Fail:
        now = applied(ruling)
        if now is not None:
            failed(task, instruction.command.failure, now)
    if type(ruling) is Refusal and ruling.code == "lease-lost":
        refused(task, instruction, ruling)


def failed(task: Task, failure: Failure, now: Task) -> None:
    # Collectors of logs group records by their template, so it has the type and the class of the error.
    kind = failure.error_type or failure.kind.value
    failed = f"task %s ({_literal(task.type)}) attempt %d of %d failed: {_literal(kind)}: %s; "
    what = (task.id, task.attempts, task.max_attempts, _short(failure.message))
    facts = {"failure": failure.kind.value, **_error(failure)}
    if now.status is Status.QUEUED:
        wait = max(0.0, now.due_at - now.updated_at)
        extra = _fields(task, "retry", next_in_seconds=wait, **facts)
        template = f"{failed}next attempt in %.1f s"
        log.warning(template, *what, wait, extra=extra)
    else:
        rest = ", and so are the tasks that need its result" if now.has_dependents else ""
        rest += f"\n{lines(failure.traceback).rstrip()}" if failure.traceback else ""
        extra = _fields(task, "dead", **facts)
        template = f"{failed}it is a dead letter now%s"
        log.error(template, *what, rest, extra=extra)


def refused(task: Task, instruction: Instruction, refusal: Refusal) -> None:
    """Logs the outcome of a run that has lost its lease."""
    refused_write(task, type(instruction.command).__name__.lower(), refusal.message)


def refused_write(task: Task, verb: str, message: str) -> None:
    """Logs a write of a run that has lost its lease: an outcome, a report, a step, a question."""
    log.warning(
        "%s attempt %d: its '%s' came too late and was refused (%s); this run has lost its lease, "
        "the store keeps what it has",
        _named(task),
        task.attempts,
        verb,
        _short(message),
        extra=_fields(task, "refused", write=verb, error=_short(message)),
    )


def stalled(ruling: Ruling) -> None:
    """Logs a run that made no progress in time."""
    if isinstance(ruling, Transition) and ruling.after.status is Status.STUCK:
        task = ruling.before
        log.warning(
            "%s attempt %d is stuck: no progress for %g s; its runner %s goes on",
            *(_named(task), task.attempts, task.progress_timeout_seconds or 0.0, task.node),
            extra=_fields(task, "stuck", failure="timeout", node=task.node),
        )


def expired(ruling: Ruling) -> None:
    """Logs an expired lease after the sweeper took the task back."""
    if not isinstance(ruling, Transition):
        return
    before, after = ruling.before, ruling.after
    is_blocked = any(event.data.get("runner") == "blocked" for event in ruling.events)
    what = f"{_named(before)} attempt {before.attempts}: its runner {before.node} "
    what += "is alive with a blocked event loop" if is_blocked else "stopped answering"
    facts = {"failure": "lost", "node": before.node, "deaths": after.deaths}
    facts["runner"] = "blocked" if is_blocked else "silent"
    if after.status is Status.QUEUED:
        wait = max(0.0, after.due_at - after.updated_at)
        log.warning(
            "%s, %d of %d times; next run in %.1f s",
            *(what, after.deaths, before.options.max_deaths, wait),
            extra=_fields(before, "retry", next_in_seconds=wait, **facts),
        )
    else:
        extra = _fields(before, "dead", **facts)
        log.error("%s, %d times; it is a dead letter now", what, after.deaths, extra=extra)


def held(task: Task) -> None:
    """Logs an outcome that waits for another transaction."""
    log.warning(
        "%s attempt %d: its outcome waits, because another transaction holds the task or a limit of it; it "
        "is written when that one has ended (find it in pg_stat_activity), its lease is renewed till then",
        *(_named(task), task.attempts),
        extra=_fields(task, "waiting"),
    )


def taken(task: Task, now: Task | None) -> None:
    """Logs a run that lost its lease, with the current state of the task."""
    if now is None:
        extra = _fields(task, "lost")
        log.warning(
            "%s was lost by this process: it is gone from the store", _named(task), extra=extra
        )
    elif now.status in (Status.ABORTED, Status.PAUSED):
        extra = _fields(task, now.status.value)
        log.info("%s is %s: its handler is cancelled", _named(task), now.status, extra=extra)
    else:
        log.warning(
            "%s attempt %d lost its lease: the lease was not renewed in time, and the task is %s "
            "under fence %d now (this run has %d); the handler is cancelled",
            *(_named(task), task.attempts, now.status, now.fence, task.fence),
            extra=_fields(task, "lost", status=now.status.value, fence=task.fence),
        )


def cut_off(task: Task, why: str) -> None:
    """Logs a run that a worker without a database does not hold any more."""
    log.warning(
        "%s attempt %d: this worker does not hold it any more: %s; the handler is cancelled",
        *(_named(task), task.attempts, why),
        extra=_fields(task, "lost"),
    )


def taken_by_command(task: Task, why: str, command_id: str) -> None:
    """Logs a run that an operator's command takes from a worker without a database."""
    log.info(
        "%s attempt %d: %s; the handler is cancelled (%s)",
        *(_named(task), task.attempts, why, command_id),
        extra=_fields(task, "lost", intervention_id=command_id),
    )


def left(task: Task, block: LoopBlock) -> None:
    """Logs a run whose lease is not kept any more while the event loop of its process is blocked."""
    log.error(
        "%s attempt %d: its lease is not renewed any more, because %s; another process takes the task over "
        "when the lease has ended",
        *(_named(task), task.attempts, str(block).replace("its event loop", "the event loop")),
        extra=_fields(
            task, "blocked", blocked_seconds=round(block.seconds, 3), blocked_by=block.task_id
        ),
    )


def stuck(task: Task, seconds: float, stack: str) -> None:
    """Logs a handler that goes on after its cancellation."""
    log.error(
        "%s attempt %d has ignored its cancellation for %.0f s and keeps its worker; its lease is not "
        "renewed any more. Do not catch CancelledError without raising it again. Its stack:\n%s",
        *(_named(task), task.attempts, seconds, lines(stack)),
        extra=_fields(task, "deaf"),
    )


def _fields(task: Task, outcome: str, **facts: object) -> dict[str, object]:
    """The fields of a record. No name is one of `logging.LogRecord` or of structlog."""
    return {
        "task_id": task.id,
        "task_type": task.type,
        "queue": task.queue,
        "attempt": task.attempts,
        "max_attempts": task.max_attempts,
        "outcome": outcome,
        **facts,
    }


def _error(failure: Failure) -> dict[str, object]:
    return {"error_type": failure.error_type, "error": _short(failure.message)}


def _short(text: str) -> str:
    """The text in one line of bounded length."""
    line = one_line(text)
    return line[:MESSAGE_CHARS_MAX] + ("…" if len(line) > MESSAGE_CHARS_MAX else "")


def _named(task: Task) -> str:
    return f"task {task.id} ({task.type})"


def _literal(text: str) -> str:
    """The text as a part of a template."""
    return _short(text).replace("%", "%%")
