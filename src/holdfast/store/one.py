"""What both dialects bind for the insert of a single task."""

from __future__ import annotations

from typing import Any

from holdfast.core.task import Task


def insert_one(task: Task, *, now: float, batch: int) -> dict[str, Any]:
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
        "batch": str(batch),
    }
