"""A task as a gateway offers it, as the task that an engine runs."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from holdfast.core.priority import parse as parse_priority
from holdfast.core.tags import tags_json
from holdfast.core.task import DEFAULT_PROJECT, Status, Task
from holdfast.core.worker.wire import ClaimedTask


class OfferedTask(msgspec.Struct, frozen=True):
    """`task_json` of an offer."""

    id: str
    type: str
    queue: str
    priority: str
    payload: msgspec.Raw
    attempt: int
    max_attempts: int
    version: int
    project: str = DEFAULT_PROJECT
    metadata: dict[str, Any] = {}
    options: msgspec.Raw = msgspec.Raw(b"{}")
    deaths: int = 0
    created_at: float = 0.0
    due_at: float = 0.0
    started_at: float | None = None
    limits: str | None = None
    has_dependents: int = 0
    idempotency_key: str | None = None
    tags: tuple[str, ...] = ()


_offered: Final = msgspec.json.Decoder(OfferedTask)


def task_of(claimed: ClaimedTask, node: str) -> Task:
    """The running task that the offer describes. Times are the store's."""
    offered = _offered.decode(claimed.task_json)
    started_at = offered.started_at or offered.due_at
    metadata = msgspec.json.encode(offered.metadata).decode() if offered.metadata else None
    return Task(
        id=claimed.task_id,
        type=offered.type,
        queue=offered.queue,
        priority=parse_priority(offered.priority),
        status=Status.RUNNING,
        payload_json=bytes(offered.payload).decode(),
        metadata_json=metadata,
        options_json=bytes(offered.options).decode(),
        attempts=offered.attempt,
        max_attempts=offered.max_attempts,
        deaths=offered.deaths,
        version=offered.version,
        fence=claimed.fence,
        created_at=offered.created_at,
        updated_at=started_at,
        due_at=offered.due_at,
        started_at=offered.started_at,
        node=node,
        checkpoint_json=claimed.checkpoint_json or None,
        limits=offered.limits,
        has_dependents=offered.has_dependents,
        idempotency_key=offered.idempotency_key,
        project=offered.project,
        tags_json=tags_json(offered.tags),
    )
