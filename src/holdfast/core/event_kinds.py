"""The table of event kinds: consistency class, frame name and topics of each.

Promises: every kind that the product writes has a row (a test compares the table with the code and the
documentation). A kind of a newer version gets a row by default: critical, under its own name, so that no
reader misses it. Never: stores class or topics in the feed; they are looked up here.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Any, Final

import msgspec

from holdfast.core.event import Event, desired_after, status_after
from holdfast.core.task import DEFAULT_PROJECT, Status
from holdfast.core.wire import TIME_MAX, time_text


class EventClass(StrEnum):
    """How soon an event is delivered, and whether it may be merged with others."""

    CRITICAL = "critical"
    """At the hint of its commit; never merged."""
    IMPORTANT = "important"
    """Within a second; never merged."""
    INFORMATIONAL = "informational"
    """Within five seconds; merged with its neighbours."""


class TopicRule(StrEnum):
    """How an event gets a topic."""

    TASK = "task"
    NODE = "node"
    JOB = "job"
    HOST = "host"
    QUEUE = "queue"
    PROJECT = "project"
    USER = "user"
    SYSTEM = "system"
    ADMIN = "admin"


class EventKind(msgspec.Struct, frozen=True):
    """One row of the table."""

    kind: str
    """The kind, or a prefix that ends in a dot."""
    event_class: EventClass
    frame: str
    """'' for the name of the kind."""
    topics: tuple[TopicRule, ...]
    of_project: bool = True
    """Whether the event belongs to a project. Others are about what all projects share."""


SYSTEM_EVENTS: Final = "system:events"
SYSTEM_ADMIN: Final = "system:admin"
"""The topic of events about credentials. Part of `system:events` for an administrator."""
STATUS_FRAME: Final = "task.status_changed"
CHECKPOINT_FRAME: Final = "checkpoint.created"

_TOPIC_FIELDS: Final[dict[TopicRule, tuple[str, ...]]] = {
    TopicRule.NODE: ("node", "target_node"),
    TopicRule.JOB: ("job",),
    TopicRule.HOST: ("host",),
    TopicRule.QUEUE: ("queue",),
    TopicRule.USER: ("assignees", "actor", "requested_by"),
}
"""The fields of an event's data that name the object of a topic."""


def _rows(
    kinds: str, event_class: EventClass, frame: str, topics: str, *, of_project: bool = True
) -> Iterator[EventKind]:
    rules = tuple(TopicRule(name) for name in topics.split())
    for kind in kinds.split():
        yield EventKind(kind, event_class, frame, rules, of_project)


C: Final = EventClass.CRITICAL
I: Final = EventClass.IMPORTANT  # noqa: E741 - the table below reads as its page
F: Final = EventClass.INFORMATIONAL
TABLE: Final[tuple[EventKind, ...]] = (
    # Changes of status.
    *_rows("task.enqueued task.unblocked task.snoozed task.released task.resumed task.replayed task.revived",
           C, STATUS_FRAME, "task project"),
    *_rows("task.started task.completed task.failed task.lost task.stuck task.unstuck",
           C, STATUS_FRAME, "task node project"),
    *_rows("task.aborted task.paused task.forced", C, STATUS_FRAME, "task node user project"),
    *_rows("task.dead", C, STATUS_FRAME, "task project"),
    # Other changes of a task.
    *_rows("task.edited task.late task.blamed task.held task.unheld task.assigned task.deleted "
           "task.unassigned task.rescheduled",
           C, "", "task node project"),
    *_rows("task.progress", I, "", "task node project"),
    *_rows("task.checkpoint checkpoint.created", I, CHECKPOINT_FRAME, "task node project"),
    *_rows("task.output task.metrics", F, "", "task node project"),
    *_rows("checkpoint.hitl_required decision.decided decision.expired decision.cancelled",
           C, "", "task user project"),
    *_rows("intervention.issued intervention.delivered intervention.applied intervention.refused "
           "intervention.expired", C, "", "task node user project"),
    *_rows("conflict.recorded conflict.settled", C, "", "task node project"),
    # Nodes.
    *_rows("node.registered node.left node.lost node.fenced node.cloned node.state node.revoked",
           C, "", "node project system"),
    *_rows("node.load", F, "", "node project system"),
    # What all projects share.
    *_rows("queue.paused queue.resumed", C, "", "queue system", of_project=False),
    *_rows("type.defined", C, "", "system", of_project=False),
    *_rows("type.weighted", C, "", "system", of_project=False),
    *_rows("lock.revoked lock.taken_over", C, "", "system", of_project=False),
    *_rows("schedule.put schedule.fired schedule.paused schedule.resumed schedule.removed",
           C, "", "project system"),
    # The fleet.
    *_rows("job.created job.voted job.approved job.rejected job.void job.break_glass job.reviewed "
           "job.planned job.wave job.halted job.resumed job.promoted job.changed job.finished "
           "job.corrected",
           C, "", "job user project system"),
    *_rows("job.progress", I, "", "job project system"),
    *_rows("execution.reconciled", C, "", "task job host project"),
    *_rows("host. block. group.", C, "", "host project system"),
    # Credentials and projects.
    *_rows("project.", C, "", "project system"),
    *_rows("token. audit. webhook.", C, "", "admin", of_project=False),
)  # fmt: skip

KINDS: Final[dict[str, EventKind]] = {row.kind: row for row in TABLE}
_OF_TASK: Final = (TopicRule.TASK, TopicRule.NODE, TopicRule.PROJECT)
_OF_STORE: Final = (TopicRule.PROJECT, TopicRule.SYSTEM)


def row_of(event: Event) -> EventKind:
    """The row of an event's kind."""
    row = KINDS.get(event.kind) or KINDS.get(event.kind.partition(".")[0] + ".")
    if row is None:
        topics = _OF_TASK if event.task_id else _OF_STORE
        return EventKind(event.kind, EventClass.CRITICAL, "", topics)
    return row


def class_of(event: Event) -> EventClass:
    return row_of(event).event_class


def frame_of(event: Event) -> str:
    """The name of the frame that carries the event."""
    return row_of(event).frame or event.kind


def project_of(event: Event) -> str | None:
    """The project of an event. None: it is about what all projects share."""
    if not row_of(event).of_project:
        return None
    return event.project or DEFAULT_PROJECT


def topics_of(event: Event) -> tuple[str, ...]:
    """The topics under which the event is delivered, without repetition."""
    topics: dict[str, None] = {}
    for rule in row_of(event).topics:
        topics |= dict.fromkeys(_topics_by(rule, event))
    return tuple(topics)


def _topics_by(rule: TopicRule, event: Event) -> Iterator[str]:
    match rule:
        case TopicRule.TASK:
            if event.task_id:
                yield f"task:{event.task_id}"
        case TopicRule.PROJECT:
            yield f"project:{project_of(event) or DEFAULT_PROJECT}"
            yield "project:all"
        case TopicRule.SYSTEM:
            yield SYSTEM_EVENTS
        case TopicRule.ADMIN:
            yield SYSTEM_ADMIN
        case _:
            for field in _TOPIC_FIELDS[rule]:
                for name in _names(event.data.get(field)):
                    yield f"{rule}:{name.removeprefix('user:') if rule is TopicRule.USER else name}"


def _names(value: object) -> Iterator[str]:
    """The names in a field: one, or a list of them."""
    if isinstance(value, str) and value:
        yield value
    elif isinstance(value, list | tuple):
        yield from (name for name in value if isinstance(name, str) and name)


def payload_of(event: Event) -> dict[str, Any]:
    """The payload of an event's frame: its fields, with the task, the new status, and times as text."""
    payload: dict[str, Any] = {}
    if event.task_id:
        payload["task_id"] = event.task_id
    if event.type:
        payload["type"] = event.type
    if frame_of(event) == STATUS_FRAME and (status := _status_after(event)) is not None:
        if (before := status_before(event)) is not None:
            payload["from"] = before.value
        payload["to"] = status.value
        payload["desired"] = desired_after(event, status)
    for name, value in event.data.items():
        payload[name] = time_text(value) if name.endswith("_at") and _is_time(value) else value
    return payload


_STATUS_BEFORE: Final = {
    "task.unblocked": Status.BLOCKED,
    "task.started": Status.QUEUED,
    "task.stuck": Status.RUNNING,
    "task.unstuck": Status.STUCK,
    "task.resumed": Status.PAUSED,
    "task.replayed": Status.FAILED,
    "task.revived": Status.FAILED,
}
"""Kinds that leave one status only."""


def status_before(event: Event) -> Status | None:
    """The status that the event ended. None: the task is new, or the event does not say."""
    if event.kind == "task.forced":
        return Status(event.data["before"])
    return _STATUS_BEFORE.get(event.kind)


def _is_time(value: object) -> bool:
    is_number = isinstance(value, float | int) and not isinstance(value, bool)
    return is_number and 0.0 <= value <= TIME_MAX  # type: ignore[operator]


def _status_after(event: Event) -> Status | None:
    """A last failed attempt ends in `failed`; the event `task.dead` of the same transaction follows."""
    if event.kind == "task.failed" and not event.data.get("will_retry"):
        return Status.FAILED
    return status_after(event)
