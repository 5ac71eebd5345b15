"""Tasks in JSON: `TaskView` for a single task, `TaskRow` for a task in a list."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from holdfast.client import models
from holdfast.core import codec, gate
from holdfast.core.dependency import DependencyPolicy
from holdfast.core.group import GroupProgress
from holdfast.core.priority import parse as parse_priority
from holdfast.core.tags import read_tags, tags_json
from holdfast.core.task import Failure, FailureKind, Priority, Status, Task
from holdfast.core.wire import preview
from holdfast.queue.details import TaskDetails
from holdfast.queue.views.values import View, at, known_time, parsed, remaining, shown, time_of
from holdfast.queue.why import Why
from holdfast.store.rows import Dependency
from holdfast.store.search import TaskRow

_PLAIN = (
    "id", "project", "type", "queue", "held_by", "gate", "version", "fence", "attempts", "max_attempts",
    "deaths", "node", "claim_id", "fingerprint", "waiting_on", "idempotency_key",
)  # fmt: skip
_TIMES = ("created_at", "updated_at", "due_at", "started_at", "finished_at")
NOT_SHOWN: Final[dict[str, str]] = {
    "payload_json": "shown as `payload`",
    "metadata_json": "shown as `metadata`",
    "tags_json": "shown as `tags`",
    "fair_key": "the `key` that takes turns, of a type that is fair",
    "keep_done_seconds": "an option of the type",
    "options_json": "shown as `options`",
    "result_json": "shown as `result`",
    "failure_json": "shown as `failure`",
    "checkpoint_json": "shown as `checkpoint`",
    "progress_json": "shown as `progress`",
    "has_dependents": "shown as `dependents`",
    "request_hash": "it tells repeats apart inside the store",
    "lease_seconds": "`lease_until` is what counts: each renewal sets it",
    "progress_timeout_seconds": "`progress_due_at` is what counts: each report sets it",
}
"""Fields of `Task` that `TaskView` does not have under their names, and why."""


def task(of: Task, now: float, details: TaskDetails | None = None) -> View:
    """A task with its bodies. `details` None: they were not read, and its dependencies are left out."""
    beside = details or TaskDetails()
    view = shown(
        models.TaskView(
            **_common(of, now),
            progress=progress(of.progress),
            payload_bytes=_size(of.payload_json),
            result_bytes=_size(of.result_json),
            error=of.error,
            client_id=beside.client_id,
            desired=gate.desired(of),
            lease_until=at(of.lease_until),
            progress_due_at=at(of.progress_due_at),
            assigned_to=of.assigned_to,
            assigned_until=at(of.assigned_until),
            payload=of.payload,
            result=of.result,
            checkpoint=of.checkpoint,
            metadata=of.metadata,
            metrics=beside.metrics,
            options=msgspec.to_builtins(of.options),
            limits=list(of.limit_names),
            failure=_failure(of.failure),
            depends_on=[_dependency(parent) for parent in beside.parents],
            dependents=list(beside.dependents),
        )
    )
    if details is None:
        del view["depends_on"], view["dependents"]
    return view


def task_row(of: Task | TaskRow, now: float) -> View:
    """A task in a list."""
    row = _row(of) if isinstance(of, Task) else of
    latest = None if row.progress_json is None else codec.loads(row.progress_json)
    return shown(
        models.TaskRow(
            **_common(row, now),
            progress=progress(latest),
            payload_bytes=row.payload_bytes,
            result_bytes=row.result_bytes,
            error=None if row.error is None else preview(row.error),
            failure_kind=row.failure_kind,
            error_type=row.error_type or None,
            payload_preview=row.payload_preview,
            result_preview=row.result_preview,
        )
    )


def why(of: Why) -> View:
    """Why a task is not running."""
    return shown(of)


def progress(value: codec.Json) -> models.ProgressView | None:
    """The latest report of a runner; None before the first one."""
    if value is None:
        return None
    fields: dict[str, Any] = value if isinstance(value, dict) else {"done": value}
    names = models.ProgressView.__struct_fields__
    return models.ProgressView(**{name: fields[name] for name in names if name in fields})


def read_task(view: View) -> Task:
    """The task of a view. A row of a list has no bodies: its payload is null."""
    given = parsed(view, models.TaskView)
    has_result = given.status == Status.COMPLETED and "result" in view
    fields = {name: getattr(given, name) for name in _PLAIN}
    times: dict[str, Any] = {name: time_of(getattr(given, name)) for name in _TIMES[3:]}
    return Task(
        **fields,
        **times,
        priority=parse_priority(given.priority),
        status=Status(given.status),
        payload_json=codec.dumps(given.payload),
        metadata_json=codec.dumps(given.metadata) if given.metadata else None,
        tags_json=tags_json(tuple(given.tags)),
        options_json=codec.dumps(given.options),
        created_at=known_time(given.created_at),
        updated_at=known_time(given.updated_at),
        due_at=known_time(given.due_at),
        lease_until=time_of(given.lease_until),
        progress_due_at=time_of(given.progress_due_at),
        assigned_to=given.assigned_to,
        assigned_until=time_of(given.assigned_until),
        result_json=codec.dumps(given.result) if has_result else None,
        failure_json=_failure_json(given, view),
        checkpoint_json=None if given.checkpoint is None else codec.dumps(given.checkpoint),
        progress_json=_progress_json(given.progress),
        limits="\n".join(given.limits) or None,
        has_dependents=int(bool(given.dependents)),
    )


def read_details(view: View) -> TaskDetails:
    """What the view of a task has beside its row."""
    given = parsed(view, models.TaskView)
    parents = tuple(
        Dependency(
            edge.id,
            DependencyPolicy(edge.policy),
            edge.settled,
            None if edge.status is None else Status(edge.status),
        )
        for edge in given.depends_on
    )
    return TaskDetails(parents, tuple(given.dependents), given.client_id, given.metrics)


def read_why(view: View) -> Why:
    return parsed(view, Why)


def _common(of: Task | TaskRow, now: float) -> dict[str, Any]:
    return {
        **{name: getattr(of, name) for name in _PLAIN},
        **{name: at(getattr(of, name)) for name in _TIMES},
        "status": str(of.status),
        "priority": Priority(of.priority).name.lower(),
        "tags": [] if of.tags_json is None else list(read_tags(of.tags_json)),
        "lease_remaining_seconds": remaining(of.lease_until, now),
    }


def _row(of: Task) -> TaskRow:
    """A task as a search reads it."""
    failure = of.failure
    bodies: dict[str, Any] = {
        "error": of.error,
        "failure_kind": None if failure is None else failure.kind.value,
        "error_type": None if failure is None else failure.error_type,
        "payload_preview": preview(of.payload_json),
        "payload_bytes": _size(of.payload_json),
        "result_preview": None if of.result_json is None else preview(of.result_json),
        "result_bytes": _size(of.result_json),
    }
    names = [name for name in TaskRow.__struct_fields__ if name not in bodies]
    return TaskRow(**{name: getattr(of, name) for name in names}, **bodies)


def _size(text: str | None) -> int | None:
    return None if text is None else len(text.encode())


def _dependency(of: Dependency) -> models.DependencyView:
    return models.DependencyView(
        id=of.parent_id, policy=of.policy.value, status=of.status, settled=of.is_settled
    )


def _failure(of: Failure | None) -> models.FailureView | None:
    if of is None:
        return None
    return models.FailureView(**{**msgspec.structs.asdict(of), "kind": of.kind.value})


def _failure_json(given: models.TaskView, view: View) -> str | None:
    """The evidence of a failure. A row of a list has its kind and the start of its message."""
    if given.failure is not None:
        return codec.dumps(msgspec.structs.asdict(given.failure))
    kind = view.get("failure_kind")
    if kind is None:
        return None
    failure = Failure(
        FailureKind(kind),
        given.error or "",
        view.get("error_type") or "",
        fingerprint=given.fingerprint or "",
    )
    return codec.dumps(msgspec.to_builtins(failure))


def _progress_json(given: models.ProgressView | None) -> str | None:
    """The fields that a runner has reported: the view fills in the others."""
    if given is None:
        return None
    fields = msgspec.structs.asdict(given)
    return codec.dumps({name: value for name, value in fields.items() if value or name == "done"})


def task_group(of: GroupProgress) -> View:
    """How far a task group is."""
    return shown(
        models.TaskGroupView(
            id=of.id,
            project=of.project,
            size=of.size,
            created_at=at(of.created_at),
            counts={status.value: n for status, n in sorted(of.counts.items())},
            ended=of.ended,
            open=of.open,
            pruned=of.pruned,
            is_ended=of.is_ended,
        )
    )


def read_task_group(view: View) -> GroupProgress:
    given = parsed(view, models.TaskGroupView)
    counts = {Status(name): n for name, n in given.counts.items()}
    return GroupProgress(given.id, given.project, given.size, known_time(given.created_at), counts)
