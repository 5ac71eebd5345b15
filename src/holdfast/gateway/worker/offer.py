"""A claimed task as it travels to its worker: durations instead of times, the payload as it is stored."""

from __future__ import annotations

from typing import Final

import msgspec

from holdfast.core.task import PRIORITY_NAMES, Task, timeout_of
from holdfast.core.worker.wire import ClaimedTask


class TaskView(msgspec.Struct, frozen=True, gc=False):
    """`task_json` of an offer."""

    id: str
    type: str
    queue: str
    project: str
    priority: str
    payload: msgspec.Raw
    metadata: dict[str, object]
    attempt: int
    max_attempts: int
    version: int
    timeout_seconds: float | None
    options: msgspec.Raw
    deaths: int
    created_at: float
    due_at: float
    started_at: float | None
    limits: str | None
    has_dependents: int
    idempotency_key: str | None
    tags: tuple[str, ...]


_encode: Final = msgspec.json.Encoder().encode


def offer_of(task: Task, now: float, decisions_json: str = "") -> ClaimedTask:
    """A claimed task with the rest of its lease, not its end."""
    until = task.lease_until
    view = TaskView(
        task.id,
        task.type,
        task.queue,
        task.project,
        PRIORITY_NAMES[task.priority],
        msgspec.Raw(task.payload_json),
        task.metadata,
        task.attempts,
        task.max_attempts,
        task.version,
        timeout_of(task.options, None),
        msgspec.Raw(task.options_json),
        task.deaths,
        task.created_at,
        task.due_at,
        task.started_at,
        task.limits,
        task.has_dependents,
        task.idempotency_key,
        task.tags,
    )
    return ClaimedTask(
        task_id=task.id,
        fence=task.fence,
        lease_ms=0 if until is None else max(0, int((until - now) * 1000)),
        task_json=_encode(view).decode(),
        checkpoint_json=task.checkpoint_json or "",
        decisions_json=decisions_json,
        attempt=task.attempts,
    )
