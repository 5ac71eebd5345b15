"""Rows of SQLite's fast paths, as its statements bind them."""

from __future__ import annotations

from typing import Any

from holdfast.core.decide import Transition
from holdfast.core.submit import Submission
from holdfast.core.task import Task
from holdfast.store.script import Call, call


def insert_row(submission: Submission) -> tuple[Any, ...]:
    """The columns of statement `insert_plain`."""
    task = submission.task
    return (
        task.id,
        task.type,
        task.queue,
        int(task.priority),
        task.payload_json,
        task.metadata_json,
        task.options_json,
        task.max_attempts,
        task.due_at - task.created_at,
        task.request_hash,
    )


def insert_one(task: Task, *, now: float, batch: str) -> Call:
    return call(
        "insert_one",
        id=task.id,
        type=task.type,
        queue=task.queue,
        priority=task.priority.value,
        payload_json=task.payload_json,
        metadata_json=task.metadata_json,
        options_json=task.options_json,
        max_attempts=task.max_attempts,
        due_at=now + (task.due_at - task.created_at),
        request_hash=task.request_hash,
        now=now,
        batch=batch,
    )


def complete_row(done: Transition) -> tuple[Any, ...]:
    """The columns of statement `complete_plain`."""
    before = done.before
    return (before.id, before.fence, before.version, done.after.result_json)
