"""What both dialects bind for the insert of a single task."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from holdfast.core.decide import enqueued
from holdfast.core.task import Task

_encode: Final = msgspec.json.Encoder().encode


def insert_one(task: Task, now: float) -> dict[str, Any]:
    """The parameters of statement `insert_one`; a delay counts from the recorded creation."""
    return {
        "id": task.id,
        "type": task.type,
        "queue": task.queue,
        "priority": task.priority.value,
        "payload_json": task.payload_json,
        "metadata_json": task.metadata_json,
        "options_json": task.options_json,
        "max_attempts": task.max_attempts,
        "due_at": now + (task.due_at - task.created_at),
        "now": now,
        "facts_json": _encode((enqueued(task, now),)).decode(),
        "deltas_json": _encode(
            ((task.queue, task.type, task.priority.value, "queued", 1),)
        ).decode(),
    }
