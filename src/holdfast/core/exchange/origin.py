"""Where the sides of a conflict come from: who wrote the server's content, when, and what both began with.

Promises: the common base is rebuilt from the events of the edits that came after it, or it is None: if one of
these events is not kept, or left its old values out. When a node wrote offline is not known to the server.
Never: I/O.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from holdfast.core.event import Event

Content = Mapping[str, Any]
"""Payload, metadata and labels, as far as they are known."""


class Origin(msgspec.Struct, frozen=True):
    """What the events of a task tell about a conflict."""

    written_at: float | None = None
    """When the content of the server was written."""
    written_by: str | None = None
    base: dict[str, Any] | None = None


def origin(
    server: Content, client: Content, *, base_version: int, version: int, events: Sequence[Event]
) -> Origin:
    """`server`: the content at `version`. `client`: what was written on `base_version`. `events`: those of
    the task, oldest first."""
    known = [event for event in events if 0 < event.version <= version]
    writes = [event for event in known if event.kind == "task.enqueued" or _changes(event)]
    if not writes:
        return Origin()
    last = writes[-1]
    by = last.data.get("actor")
    after = [event for event in writes if event.version > base_version]
    # The events that are kept are the latest ones: with one at the base, none after it is missing.
    is_whole = known[0].version <= base_version and base_version > 0
    base = _rebuilt(server, client, after) if is_whole else None
    return Origin(last.at, by if isinstance(by, str) else None, base)


def _changes(event: Event) -> bool:
    return any(key in event.data for key in ("before", "added", "before_omitted")) or (
        event.kind == "task.edited"
    )


def _rebuilt(server: Content, client: Content, edits: Sequence[Event]) -> dict[str, Any] | None:
    """The content before the edits. None if one of them left its old values out."""
    payload, metadata = server.get("payload"), server.get("metadata")
    labels = set(server.get("labels") or ())
    for event in reversed(edits):
        data = event.data
        about_metadata = data.get("metadata") or {}
        if "before_omitted" in data or "before_omitted" in about_metadata:
            return None
        payload = _undone(payload, data)
        metadata = _undone(metadata, about_metadata)
        tags = data.get("tags") or {}
        labels = (labels - set(tags.get("added", ()))) | set(tags.get("removed", ()))
    shown = {*(server.get("metadata") or ()), *(client.get("metadata") or ())}
    kept = {key: value for key, value in (metadata or {}).items() if key in shown}
    return {"payload": payload, "metadata": kept, "labels": sorted(labels)}


def _undone(after: Any, change: Mapping[str, Any]) -> Any:
    """What was there before a change, as `core.edits.difference` describes it."""
    if "before" not in change:
        return after
    before = change["before"]
    if not isinstance(before, dict) or not isinstance(after, dict):
        return before
    added = set(change.get("added", ()))
    return {key: value for key, value in after.items() if key not in added} | before
