"""Tasks of Holdfast as results of Django."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Final

from django.utils import timezone
from django.utils.module_loading import import_string

from holdfast import errors
from holdfast.core.event import Event
from holdfast.core.task import ENDED, Failure, Status, Task
from holdfast.django.interface import ResultStatus, TaskError, TaskResult
from holdfast.engine import arguments, declared, process

STARTED: Final = "task.started"
OF_THE_ENGINE: Final = (errors, arguments, declared, process)
"""Modules of the errors that the engine raises itself. Their failures may have no traceback."""
STATUSES: Final = {
    Status.BLOCKED: ResultStatus.READY,
    Status.QUEUED: ResultStatus.READY,
    Status.PAUSED: ResultStatus.READY,
    Status.RUNNING: ResultStatus.RUNNING,
    Status.STUCK: ResultStatus.RUNNING,
    Status.COMPLETED: ResultStatus.SUCCESSFUL,
    Status.FAILED: ResultStatus.FAILED,
    Status.ABORTED: ResultStatus.FAILED,
}


def result_of(task: Task, given: Any, backend: str, events: Iterable[Event] = ()) -> Any:
    """The result of a task in the store. `given`: the Django task. `events`: its history, which names the
    workers; without it only the latest is known."""
    starts = [event for event in events if event.kind == STARTED]
    workers = [str(event.data.get("node") or "") for event in starts]
    if not workers and task.attempts:
        workers = [task.node or ""] * task.attempts
    payload: Any = task.payload
    made = TaskResult(
        task=given,
        id=task.id,
        status=STATUSES[task.status],
        enqueued_at=moment(task.created_at),
        started_at=moment(starts[0].at if starts else task.started_at),
        finished_at=moment(task.finished_at) if task.status in ENDED else None,
        last_attempted_at=moment(task.started_at),
        args=payload.get("args", []),
        kwargs=payload.get("kwargs", {}),
        backend=backend,
        errors=_errors(task),
        worker_ids=workers,
    )
    if task.status is Status.COMPLETED:
        object.__setattr__(made, "_return_value", task.result)
    return made


def new_result(
    given: Any, task_id: str, backend: str, payload: dict[str, Any], at: datetime
) -> Any:
    """The result of a task that no worker has seen."""
    return TaskResult(
        task=given,
        id=task_id,
        status=ResultStatus.READY,
        enqueued_at=at,
        started_at=None,
        finished_at=None,
        last_attempted_at=None,
        args=payload["args"],
        kwargs=payload["kwargs"],
        backend=backend,
        errors=[],
        worker_ids=[],
    )


def django_task(type_name: str) -> Any:
    """The Django task whose type this is."""
    return import_string(type_name)


def moment(seconds: float | None) -> datetime | None:
    if seconds is None:
        return None
    at = datetime.fromtimestamp(seconds, UTC)
    return at if _uses_zones() else timezone.make_naive(at)


def _uses_zones() -> bool:
    from django.conf import settings

    return bool(settings.USE_TZ)


def _errors(task: Task) -> list[Any]:
    failure = task.failure
    if failure is None or task.status is Status.COMPLETED:
        return []
    path = exception_path(failure)
    return [TaskError(exception_class_path=path, traceback=failure.traceback or failure.message)]


def exception_path(failure: Failure) -> str:
    """Where the class of the error can be imported. The last line of a traceback names it."""
    name = failure.error_type.rpartition(".")[2]
    if not name:
        return "builtins.Exception"
    pattern = rf"^((?:[\w.]+\.)?{re.escape(name)})(?::|$)"
    found = re.findall(pattern, failure.traceback, re.MULTILINE)
    if not found and not failure.traceback:
        found = [f"{each.__name__}.{name}" for each in OF_THE_ENGINE if hasattr(each, name)][:1]
    path = found[-1] if found else failure.error_type
    return path if "." in path else f"builtins.{path}"
