"""Rows of SQLite's fast paths, as its statements bind them."""

from __future__ import annotations

from typing import Any

from holdfast.core.decide import Transition
from holdfast.core.submit import Submission
from holdfast.store.columns import plain_values


def insert_row(submission: Submission) -> tuple[Any, ...]:
    """The columns of statement `insert_plain`."""
    task = submission.task
    return (*plain_values(task), task.due_at - task.created_at, task.request_hash)


def complete_row(done: Transition) -> tuple[Any, ...]:
    """The columns of statement `complete_plain`."""
    before = done.before
    return (before.id, before.fence, before.version, done.after.result_json)
