"""Events in JSON. Fields that end with `_at` are times: texts in JSON, epoch seconds in Python."""

from __future__ import annotations

from typing import Any

from holdfast.client import models
from holdfast.core.event import Event, Position
from holdfast.core.task import DEFAULT_PROJECT
from holdfast.queue.views.values import View, at, known_time, parsed, shown, time_of


def event(of: Event) -> View:
    return shown(
        models.EventView(
            position=str(of.position),
            kind=of.kind,
            at=at(of.at),
            task_id=of.task_id or None,
            type=of.type or None,
            project=of.project or (DEFAULT_PROJECT if of.task_id else None),
            version=of.version or None,
            data={name: _as_text(name, value) for name, value in of.data.items()},
        )
    )


def read_event(view: View) -> Event:
    given = parsed(view, models.EventView)
    project = given.project or ""
    return Event(
        Position.parse(given.position),
        given.kind,
        known_time(given.at),
        given.task_id or "",
        given.type or "",
        {name: _as_seconds(name, value) for name, value in given.data.items()},
        "" if project == DEFAULT_PROJECT else project,
        given.version or 0,
    )


def _as_text(name: str, value: Any) -> Any:
    is_time = name.endswith("_at") and isinstance(value, int | float)
    return at(value) if is_time else value


def _as_seconds(name: str, value: Any) -> Any:
    if not name.endswith("_at") or not isinstance(value, str):
        return value
    try:
        return time_of(value)
    except ValueError:
        return value  # an event of a newer version may have other texts
