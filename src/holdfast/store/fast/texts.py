"""Events of new and of started tasks and deltas of the counters as JSON, and the parameters of an insert.

Promises: the events are those of `decide.enqueued` and `decide.started`. Their parts that all tasks of a kind
share are cached, or written once for each batch. Generated ids need no escaping.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

import msgspec

from holdfast.core.decide import Transition, enqueued, started
from holdfast.core.event import NewEvent
from holdfast.core.task import Priority, Status, Task
from holdfast.store.columns import PLAIN, plain_params, plain_values, shape_values
from holdfast.store.scripts.work import deltas_json

_encode: Final = msgspec.json.Encoder().encode
KINDS_MAX: Final = 1_000
"""Kinds of tasks whose constant texts are cached."""


def insert_one_values(task: Task, now: float) -> tuple[Any, ...]:
    """The values of statement `insert_one` in the order in which that of SQLite names them. A delay counts
    from the recorded creation."""
    delay = task.due_at - task.created_at
    return (1, now, *_one_enqueued(task, delay, now), *plain_values(task), now, now + delay)


def insert_one_recorded(task: Task, now: float, record_id: int, hint: str) -> tuple[Any, ...]:
    """The same in the order in which the statement of PostgreSQL names them."""
    delay = task.due_at - task.created_at
    head = (str(record_id), now, *_one_enqueued(task, delay, now), hint)
    return (*head, *plain_values(task), now + delay)


def _one_enqueued(task: Task, delay: float, now: float) -> tuple[str, str]:
    """The event of a new task and the delta of the counters, as JSON."""
    deltas_json = _delta_json(task.project, task.queue, task.type, task.priority, "queued")
    return _enqueued_json(task, delay, now), deltas_json


class Shared(NamedTuple):
    """What inserts of tasks share that differ only in id, payload and moment."""

    tail: str
    """The text of the event after the id of the task, with the end of the list."""
    deltas_json: str
    before: tuple[Any, ...]
    """The values between the id and the payload."""
    after: tuple[Any, ...]
    """The values after the payload."""


def shared_by(task: Task) -> Shared:
    """Of a plain task without a delay."""
    values, at = plain_values(task), PLAIN.index("payload_json")
    tail = f"{_enqueued_tail(task, 0.0, task.created_at)}]"
    deltas_json = _delta_json(task.project, task.queue, task.type, task.priority, "queued")
    return Shared(tail, deltas_json, values[1:at], values[at + 1 :])


def event_of_one(task_id: str, now: float, tail: str) -> str:
    """The event of a new task, whose tail is known."""
    return f'[["task.enqueued",{_encode(now).decode()},"{task_id}{tail}'


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


def _enqueued_json(task: Task, delay: float, now: float) -> str:
    return f"[{_enqueued_head(now)}{task.id}{_enqueued_tail(task, delay, now)}]"


def _events_json(events: tuple[NewEvent, ...]) -> str:
    return _encode(events).decode()


def _enqueued_head(now: float) -> str:
    """The `task.enqueued` event until the task id. The encoder writes a float in a fifth of the time of
    repr()."""
    return f'["task.enqueued",{_encode(now).decode()},"'


def _enqueued_tail(task: Task, delay: float, now: float) -> str:
    """The `task.enqueued` event after the task id."""
    if delay > 0 or task.tags_json is not None:
        more: dict[str, object] = {"due_at": now + delay} if delay > 0 else {}
        if task.tags_json is not None:
            more["tags"] = task.tags
        return _tail(task.type, task.queue, task.priority, task.event_project, more)
    return _prompt_tail(task.type, task.queue, task.priority, task.event_project)


def enqueued_alike(task: Task, ids: Sequence[str], now: float) -> str:
    """The events of tasks that share all values but id and payload."""
    head, tail = _enqueued_head(now), _enqueued_tail(task, task.due_at - task.created_at, now)
    return f"[{head}{f'{tail},{head}'.join(ids)}{tail}]"


def enqueued_shapes(tasks: Sequence[Task], places: Sequence[int], now: float) -> str:
    """The events of tasks, of which those at one place share all values but id and payload."""
    head = _enqueued_head(now)
    tails: dict[int, str] = {}
    for task, place in zip(tasks, places, strict=True):
        if place not in tails:
            tails[place] = _enqueued_tail(task, task.due_at - task.created_at, now)
    events = [f"{head}{task.id}{tails[place]}" for task, place in zip(tasks, places, strict=True)]
    return f"[{','.join(events)}]"


def started_alike(tasks: Sequence[Task], now: float) -> str:
    """The events of claimed tasks that share all that `decide.started` reads, apart from the id."""
    head = f'["task.started",{_encode(now).decode()},'
    first = _encode(started(tasks[0], now)).decode()
    tail = first[len(head) + len(_encode(tasks[0].id)) :]
    return f"[{','.join([f'{head}{_encode(task.id).decode()}{tail}' for task in tasks])}]"


def alike_deltas(task: Task, count: int) -> str:
    """The deltas of the counters for a number of new tasks like this one."""
    kind = (task.project, task.queue, task.type, task.priority, Status.QUEUED)
    return deltas_json(Counter({kind: count}))


def is_one_shape(tasks: Sequence[Task]) -> bool:
    """Whether the tasks differ only in id and payload, and in the moment of their creation."""
    values = list(map(shape_values, tasks))
    delays = [task.due_at - task.created_at for task in tasks]
    return values.count(values[0]) == len(values) and delays.count(delays[0]) == len(delays)


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
