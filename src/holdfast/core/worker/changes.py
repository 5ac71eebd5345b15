"""What a worker's report means: the command to its task, the metrics, the checkpoint.

Promises: a value that the store could not keep, or that is out of bounds, is InvalidInput with its field;
the worker's status names are one table. Never: decides whether the command applies (`core.decide` does).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple, assert_never

from holdfast.core import codec, command as c, failure as failures
from holdfast.core.check import (
    SECONDS_MAX,
    check_choice,
    check_name,
    check_number,
    check_text,
    check_whole,
    shown,
)
from holdfast.core.submit import PAYLOAD_BYTES_MAX, RESULT_BYTES_MAX
from holdfast.core.task import Failure, FailureKind, Task
from holdfast.core.totals import check_totals
from holdfast.core.wire import WHOLE_MAX
from holdfast.core.worker.wire import (
    Change,
    CheckpointChange,
    FailureReport,
    MetricsChange,
    OutputChunk,
    Subtask,
    TaskChange,
)
from holdfast.errors import InvalidInput, PayloadTooLarge

SUBTASKS_MAX: Final = 50
PHASE_CHARS_MAX: Final = 200
REPORTED_KINDS: Final = (
    FailureKind.ERROR,
    FailureKind.TIMEOUT,
    FailureKind.REJECTED,
    FailureKind.LOST,
)
"""The kinds of failure that a worker may report: `lost` when the process of a handler died. `dependency` is
the store's own finding."""


class Reporter(NamedTuple):
    """The worker that reports, and the store's time."""

    actor: str
    now: float


def command_of(change: TaskChange, task: Task, by: Reporter) -> c.Command:
    """The command that a change stands for. `task`: the row that it is about."""
    make = COMMANDS.get(change.status)
    if make is None:
        known = ", ".join(sorted(name for name in COMMANDS if name))
        raise InvalidInput(f"status {shown(change.status)} is not known: use one of {known}")
    return make(change, task, by)


def _report(change: TaskChange, _: Task, __: Reporter) -> c.Command:
    progress = progress_of(change)
    text = codec.dumps(progress) if progress else None
    return c.Report(progress_json=text, merge=True, is_running=change.status == "running")


def _complete(change: TaskChange, task: Task, by: Reporter) -> c.Command:
    return c.Complete(
        checked_json("resultJson", change.result_json or "null", RESULT_BYTES_MAX),
        _duration(task, by.now),
    )


def _fail(change: TaskChange, task: Task, by: Reporter) -> c.Command:
    report = change.failure or FailureReport(message=change.reason or "")
    return c.Fail(
        failure_of(task.type, report),
        _duration(task, by.now),
        final=report.final,
        retry_after_seconds=_delay(change),
    )


def _give_back(change: TaskChange, _: Task, __: Reporter) -> c.Command:
    reason, delay = check_text("reason", change.reason or ""), _delay(change)
    return c.Release(reason) if delay is None else c.Snooze(delay, reason)


def _delay(change: TaskChange) -> float | None:
    """The pause that the runner asks for."""
    if change.delay_ms is None:
        return None
    return check_number("delayMs", change.delay_ms / 1000, most=SECONDS_MAX)


def _pause(change: TaskChange, _: Task, by: Reporter) -> c.Command:
    return c.Suspend(by.actor, check_text("reason", change.reason or ""))


def _get_stuck(change: TaskChange, _: Task, __: Reporter) -> c.Command:
    return c.GetStuck(check_text("reason", change.reason or ""))


def _cancel(change: TaskChange, _: Task, __: Reporter) -> c.Command:
    return c.Cancel(check_text("reason", change.reason or ""))


COMMANDS: Final[dict[str | None, Callable[[TaskChange, Task, Reporter], c.Command]]] = {
    None: _report,
    "running": _report,
    "completed": _complete,
    "failed": _fail,
    "queued": _give_back,
    "paused": _pause,
    "stuck": _get_stuck,
    "aborted": _cancel,
}
"""The commands of a worker by the status that it reports."""


def is_report(change: TaskChange) -> bool:
    """Whether the change leaves the status as it is."""
    return change.status in (None, "running")


def progress_of(change: TaskChange) -> dict[str, Any]:
    """The fields of progress that the change has."""
    value: dict[str, Any] = {}
    if change.progress is not None:
        value["done"] = check_number("progress", change.progress, most=1.0)
    if change.phase is not None:
        value["phase"] = check_text("phase", change.phase, most=PHASE_CHARS_MAX)
    if change.iteration is not None:
        value["iteration"] = check_whole("iteration", change.iteration, least=0, most=WHOLE_MAX)
    if change.note is not None:
        value["note"] = check_text("note", change.note)
    if change.subtasks:
        if len(change.subtasks) > SUBTASKS_MAX:
            raise InvalidInput(
                f"a task shows at most {SUBTASKS_MAX} subtasks, not {len(change.subtasks)}"
            )
        value["subtasks"] = [_subtask(part) for part in change.subtasks]
    return value


def _subtask(part: Subtask) -> dict[str, Any]:
    return {
        "id": check_name("subtasks.id", part.id),
        "name": check_text("subtasks.name", part.name, most=200),
        "status": check_text("subtasks.status", part.status, most=50),
        "done": check_number("subtasks.done", part.done, most=1.0),
    }


def failure_of(task_type: str, report: FailureReport) -> Failure:
    """The evidence of a failed attempt, within the bounds of the store."""
    kind = check_choice("failure.kind", report.kind or FailureKind.ERROR.value, FailureKind)
    if kind not in REPORTED_KINDS:
        names = ", ".join(known.value for known in REPORTED_KINDS)
        raise InvalidInput(f"failure.kind {kind.value} is not for workers: use one of {names}")
    message = failures.storable(report.message) or report.error_type or "no message was given"
    error_type = failures.storable(report.error_type)[:200]
    shown, traceback = failures.evidence(message, report.traceback)
    return Failure(
        kind=kind,
        message=shown,
        error_type=error_type,
        traceback=traceback,
        fingerprint=failures.fingerprint(task_type, error_type or kind.value, message),
    )


def metrics_of(change: MetricsChange) -> dict[str, float]:
    """The totals by name. A total of 0 is left out: it is the default of a field that was not given."""
    own = {
        "tokens_used": change.tokens_used,
        "cost": change.cost,
        "duration_ms": change.duration_ms,
    }
    totals = check_totals({**own, **change.other})
    return {name: total for name, total in totals.items() if total or name in change.other}


def checkpoint_data(change: CheckpointChange) -> str:
    """The value of a checkpoint as JSON text."""
    check_name("checkpointId", change.checkpoint_id)
    check_text("type", change.type, most=200)
    check_text("note", change.note)
    return checked_json("dataJson", change.data_json or "null", PAYLOAD_BYTES_MAX)


def checked_json(field: str, text: str, most: int) -> str:
    """The text in canonical form. InvalidInput if it is not JSON, too deep or too large."""
    if text == "null":
        return text
    if len(text) > most:
        raise PayloadTooLarge(f"{field} has {len(text)} characters: at most {most} are kept")
    try:
        value = codec.loads(text)
        canonical = codec.dumps(value)
    except (ValueError, RecursionError, UnicodeError) as error:
        raise InvalidInput(f"{field} is not JSON: {error}") from None
    if codec.is_deeper(canonical, codec.DEPTH_MAX):
        raise InvalidInput(f"{field} is nested deeper than {codec.DEPTH_MAX}: make it flatter")
    return canonical


def _duration(task: Task, now: float) -> float:
    """Seconds since the claim, by the store's clock."""
    return 0.0 if task.started_at is None else max(0.0, now - task.started_at)


def kind_of(change: Change) -> str:
    """The kind of a change: the field of `Changes` that it is in."""
    match change:
        case TaskChange():
            return "task"
        case OutputChunk():
            return "output"
        case CheckpointChange():
            return "checkpoint"
        case MetricsChange():
            return "metrics"
        case _:
            assert_never(change)
