"""The parameters of a single insert, and of one that starts its task at once."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import msgspec

from holdfast.core.decide import Transition, enqueued
from holdfast.core.event import NewEvent
from holdfast.core.task import Priority, Task
from holdfast.store.columns import plain_params

_encode: Final = msgspec.json.Encoder().encode
KINDS_MAX: Final = 1_000
"""Kinds of tasks whose constant texts are cached."""


def insert_one(task: Task, now: float) -> dict[str, Any]:
    """The parameters of statement `insert_one`. A delay counts from the recorded creation."""
    tail = enqueued_tail(task, task.due_at - task.created_at, now)
    return _bound(task, now, f'[["task.enqueued",{now!r},"{task.id}{tail}]', 1, "queued")


def insert_started(start: Transition, now: float) -> dict[str, Any]:
    """The parameters of an insert that starts its task: both events, counted as running."""
    events = (enqueued(start.before, now), *start.events)
    return _bound(start.before, now, _events_json(events), len(events), "running")


def _bound(
    task: Task, now: float, events_json: str, events_count: int, counts_as: str
) -> dict[str, Any]:
    params = plain_params(task)
    params["due_at"] = now + (task.due_at - task.created_at)
    params["now"] = now
    params["events_count"] = events_count
    params["events_json"] = events_json
    params["deltas_json"] = _delta_json(
        task.project, task.queue, task.type, task.priority, counts_as
    )
    return params


def _events_json(events: tuple[NewEvent, ...]) -> str:
    return _encode(events).decode()


def enqueued_tail(task: Task, delay: float, now: float) -> str:
    """JSON tail of the `task.enqueued` event, after the task id. Generated ids need no escaping."""
    if delay > 0 or task.tags_json is not None:
        more: dict[str, object] = {"due_at": now + delay} if delay > 0 else {}
        if task.tags_json is not None:
            more["tags"] = task.tags
        return _tail(task.type, task.queue, task.priority, task.event_project, more)
    return _prompt_tail(task.type, task.queue, task.priority, task.event_project)


@lru_cache(KINDS_MAX)
def _prompt_tail(task_type: str, queue: str, priority: Priority, project: str) -> str:
    """The tail without a delay and tags, which is the same for all tasks of a kind."""
    return _tail(task_type, queue, priority, project, {})


def _tail(
    task_type: str, queue: str, priority: Priority, project: str, more: dict[str, object]
) -> str:
    data = {"priority": priority.name.lower(), "queue": queue, **more}
    texts = [_encode(value).decode() for value in (task_type, data, project)]
    return f'",{",".join(texts)},1]'


@lru_cache(KINDS_MAX)
def _delta_json(project: str, queue: str, task_type: str, priority: int, counts_as: str) -> str:
    return _encode(((project, queue, task_type, int(priority), counts_as, 1),)).decode()
