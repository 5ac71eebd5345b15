"""Conflicts of pushed items: both sides are kept, and the answer names the record.

Promises: the record, its event and its figures are part of the effect of the item. Content that a strategy
leaves to a person is recorded also when the status that came with it was accepted. A repeat of the same
content by the same node names the open record and makes no other one.
"""

from __future__ import annotations

from holdfast.core.event import NewEvent
from holdfast.core.item import Item
from holdfast.core.task import Task
from holdfast.core.verdict import ConflictState, NewConflict, Verdict
from holdfast.store.script import Script, call
from holdfast.sync.push_effects import Sender
from holdfast.sync.push_state import PushState, change_json, content_json
from holdfast.sync.rows import own


def record_conflict(
    state: PushState, item: Item, verdict: Verdict, conflict_id: str, sender: Sender
) -> Script[str | None]:
    """Keeps both sides of a conflict, if there is one. Returns its id."""
    on = verdict if verdict.conflict is not None else verdict.content
    task = state.task(item.id)
    if on is None or on.conflict is None or task is None:
        return None
    is_open = on.conflict.state is ConflictState.OPEN
    change = change_json(item)
    if is_open:
        known = yield from _open(state, task, change, sender)
        if known is not None:
            return known
    resolution = on.resolution.value if on.resolution and not is_open else None
    state.conflicts.append(
        (
            conflict_id,
            task.id,
            item.id,
            on.conflict.kind.value,
            item.expected_version,
            task.version,
            content_json(task, state.row(task)),
            change,
            item.mutation_id,
            on.conflict.state.value,
            resolution,
            None if is_open else "strategy",
        )
    )
    state.tally["conflicts_total"] += 1
    state.tally["conflicts_open"] += int(is_open)
    _mention(state, task, on.conflict, conflict_id, sender)
    return conflict_id


def _open(state: PushState, task: Task, change: str, sender: Sender) -> Script[str | None]:
    """The open conflict of this content. The task is locked, so no other push adds one meanwhile."""
    for row in state.conflicts:
        if (row[1], row[7], row[9]) == (task.id, change, ConflictState.OPEN.value):
            return str(row[0])
    rows = yield call(own("same_conflict"), task_id=task.id, node=sender.node, client_json=change)
    return str(rows[0][0]) if rows else None


def _mention(
    state: PushState, task: Task, conflict: NewConflict, conflict_id: str, sender: Sender
) -> None:
    data = {"conflict": conflict_id, "kind": conflict.kind.value, "state": conflict.state.value}
    data["node"] = sender.node
    now, project = state.work.now, task.event_project
    event = NewEvent("conflict.recorded", now, task.id, task.type, data, project, task.version)
    state.work.mention([event])
