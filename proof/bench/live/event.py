"""The event that servers without a store send."""

from __future__ import annotations

EVENT = {
    "type": "task.status_changed", "id": "project:default", "channel": "project:default",
    "prev": "2b789115:1402", "position": "2b789115:1403", "at": "2026-01-01T00:00:00.000000Z",
    "class": "critical", "kind": "task.enqueued", "version": 1,
    "payload": {"task_id": "01a1e3aa-de27-7000-9e66-c1794a1e5fa0", "type": "noop", "to": "queued",
                "queue": "default", "priority": "normal"},
}  # fmt: skip
"""Of the size of an event of Holdfast."""
