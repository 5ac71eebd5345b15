"""Which runs of a task a node has held, by the retained history of the task."""

from __future__ import annotations

from holdfast.core.event import NEW_EVENTS
from holdfast.store.script import Script, call

RECORDS_MAX = 100
"""Records of the history that are read, the latest."""


def fences_of(task_id: str, node: str) -> Script[frozenset[int]]:
    """The fences under which the node has started the task."""
    rows = yield call("task_history", id=task_id)
    if not rows:
        return frozenset()
    ids = sorted({int(part) for part in rows[0][0].split(",")[-RECORDS_MAX:] if part})
    records = yield call("records_by_id", ids=ids)
    return frozenset(
        event.data["fence"]
        for _, _, events_json in records
        for event in NEW_EVENTS.decode(events_json)
        if event.task_id == task_id
        and event.kind == "task.started"
        and event.data.get("node") == node
        and "fence" in event.data
    )
