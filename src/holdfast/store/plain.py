"""Rows and facts of the fast paths, as both dialects bind them."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from holdfast.core.decide import Transition, enqueued
from holdfast.core.submit import Submission

_encoder: Final = msgspec.json.Encoder()


def insert_row(submission: Submission) -> tuple[Any, ...]:
    """The columns of statement `insert_plain` that both dialects share."""
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
        task.due_at,
        task.request_hash,
    )


def enqueued_json(submission: Submission, now: float) -> str:
    return _encoder.encode(enqueued(submission.task, now)).decode()


def complete_row(done: Transition) -> tuple[Any, ...]:
    """The columns of statement `complete_plain` that both dialects share."""
    before = done.before
    return (before.id, before.fence, before.version, done.after.result_json)


def fact_json(done: Transition) -> str:
    return _encoder.encode(done.facts[0]).decode()
