"""What dialects bind for the insert of a single task, and for one that starts at once."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from holdfast.core.decide import Transition, enqueued
from holdfast.core.event import Fact
from holdfast.core.task import Task

_encode: Final = msgspec.json.Encoder().encode


def insert_one(task: Task, now: float) -> dict[str, Any]:
    """The parameters of statement `insert_one`; a delay counts from the recorded creation."""
    return _bound(task, now, (enqueued(task, now),), "queued")


def insert_started(start: Transition, now: float) -> dict[str, Any]:
    """The same for a task that starts in the same transaction: both facts, and it counts as running."""
    return _bound(start.before, now, (enqueued(start.before, now), *start.facts), "running")


def _bound(task: Task, now: float, facts: tuple[Fact, ...], counts_as: str) -> dict[str, Any]:
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
        "facts_count": len(facts),
        "facts_json": _encode(facts).decode(),
        "deltas_json": _encode(
            ((task.queue, task.type, task.priority.value, counts_as, 1),)
        ).decode(),
    }
