"""Events: immutable records in one ordered feed.

Promises: every transition has its event; a position is (epoch, offset), and offsets are contiguous.
Never: carries data that the task row does not have, except the result, error and duration of an attempt.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import msgspec

from holdfast.core.task import Status

RESULT_CHARS_MAX: Final = 4_096
"""A longer result is stored in the task only. The event says that it was omitted."""


class Position(NamedTuple):
    """A position in the feed. The epoch changes when history was lost, e.g. by a restore."""

    epoch: str
    offset: int

    def __str__(self) -> str:
        return f"{self.epoch}:{self.offset}"

    @classmethod
    def parse(cls, text: str) -> Position:
        """The inverse of str(). ValueError when the text is not a position."""
        epoch, _, offset = text.rpartition(":")
        if not epoch or not (offset.isascii() and offset.isdigit()):
            raise ValueError(
                f"'{text}' is not a position: write it as events show it, such as c3557be7:142"
            )
        return cls(epoch, int(offset))


class NewEvent(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An event before it has a position. The feed stores it as a JSON array to save space."""

    kind: str
    at: float
    task_id: str
    type: str
    data: dict[str, Any] = {}
    project: str = ""
    """The project of the task; empty: the default one, or none."""
    version: int = 0
    """The version of the task after the event; 0: the event is not about a task."""


class Event(msgspec.Struct, frozen=True):
    """An event in the feed. `data` has the fields of its kind (docs/reference/events.md)."""

    position: Position
    kind: str
    at: float
    task_id: str
    type: str
    data: dict[str, Any]
    project: str = ""
    """The project of the task; empty: the default one, or none."""
    version: int = 0
    """The version of the task after the event; 0: the event is not about a task."""

    def __getattr__(self, name: str) -> Any:
        """Reads a field of `data`: `event.attempt`, `event.will_retry`."""
        try:
            return self.data[name]
        except KeyError:
            raise AttributeError(f"event '{self.kind}' has no field '{name}'") from None


NEW_EVENTS: Final = msgspec.json.Decoder(list[NewEvent])


def with_result(data: dict[str, Any], result_json: str | None) -> dict[str, Any]:
    """Adds the result to an event's data, or `result_omitted` when it is too long."""
    if result_json is None or result_json == "null":
        data["result"] = None
    elif len(result_json) <= RESULT_CHARS_MAX:
        data["result"] = msgspec.Raw(result_json.encode())
    else:
        data["result_omitted"] = True
    return data


RUN: Final = "run"
PAUSED: Final = "paused"
"""What operators want of a task, as events and views say it."""
_STATUS_AFTER: Final = {
    "task.unblocked": Status.QUEUED,
    "task.started": Status.RUNNING,
    "task.snoozed": Status.QUEUED,
    "task.released": Status.QUEUED,
    "task.lost": Status.QUEUED,
    "task.resumed": Status.QUEUED,
    "task.stuck": Status.STUCK,
    "task.unstuck": Status.RUNNING,
    "task.replayed": Status.QUEUED,
    "task.revived": Status.BLOCKED,
    "task.paused": Status.PAUSED,
    "task.completed": Status.COMPLETED,
    "task.dead": Status.FAILED,
    "task.aborted": Status.ABORTED,
}


def desired_after(event: Event, status: Status) -> str:
    """What operators want of the task after a change to this status. An event of a task that goes on to be
    held has the field `desired`."""
    wanted: str = event.data.get("desired", RUN)
    return PAUSED if status is Status.PAUSED else wanted


def status_after(event: Event) -> Status | None:
    """The status of the task after the event; None when the event does not change it. A reader of the feed
    from its beginning knows with this where each task is."""
    match event.kind:
        case "task.enqueued":
            return Status.BLOCKED if event.data.get("waiting_on") else Status.QUEUED
        case "task.failed" if event.data.get("will_retry"):
            return Status.QUEUED
        case "task.forced":
            return Status(event.data["after"])
        case kind:
            return _STATUS_AFTER.get(kind)
