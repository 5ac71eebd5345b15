"""The redaction rules applied to what a gateway shows beside the bodies that a caller asked for.

Promises: events and previews leave a gateway without secrets, on every transport. Output keeps its bytes: its
offsets count them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from msgspec.structs import replace

from holdfast.core.event import Event
from holdfast.core.redaction import Redaction
from holdfast.core.task import Task
from holdfast.gateway.feed.ports import Prepare
from holdfast.gateway.feed.prepare import OUTPUT
from holdfast.queue import views
from holdfast.queue.details import TaskDetails

PREVIEWS = ("payload_preview", "result_preview", "error", "held_by")
OPERATORS = ("held_by",)
"""Texts of operators in a task that is shown with its bodies."""


class Shows(Protocol):
    """The part of a gateway's services that shows tasks."""

    @property
    def redaction(self) -> Redaction: ...

    def now(self) -> float: ...


def event(rules: Redaction, of: Event) -> Event:
    """The event without secrets."""
    return of if of.kind == OUTPUT else replace(of, data=rules.value(of.data))


def row(rules: Redaction, view: dict[str, Any]) -> dict[str, Any]:
    """The row of a list with previews without secrets."""
    texts = {name: view[name] for name in PREVIEWS if isinstance(view.get(name), str)}
    return view | {name: rules.text(text) for name, text in texts.items()}


def task(by: Shows, of: Task, details: TaskDetails | None = None) -> dict[str, Any]:
    """A task with its bodies. What an operator wrote about it has no secrets."""
    return texts(by.redaction, views.task(of, by.now(), details), OPERATORS)


def texts(rules: Redaction, view: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """The view with these texts without secrets."""
    return view | {name: rules.text(view[name]) for name in names if view.get(name)}


def intervention(rules: Redaction, view: dict[str, Any]) -> dict[str, Any]:
    """The intervention without secrets in what its operator and its runner wrote."""
    return view | {name: rules.value(view[name]) for name in ("reason", "detail", "args")}


def redacted(prepare: Prepare, rules: Redaction) -> Prepare:
    """Prepares a page of the feed, then hides its secrets."""

    async def both(events: Sequence[Event]) -> Sequence[Event]:
        return [event(rules, of) for of in await prepare(events)]

    return both
