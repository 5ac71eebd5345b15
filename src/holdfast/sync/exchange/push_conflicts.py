"""Conflicts of pushed items: both sides are kept, and the answer names the record.

Promises: the record, its event and its figures are part of the effect of the item. Content that a strategy
leaves to a person is recorded also when the status that came with it was accepted. A repeat of the same
content by the same node names the open record and makes no other one.
"""

from __future__ import annotations

from typing import Final

from holdfast.core.event import NewEvent
from holdfast.core.exchange.item import Item
from holdfast.core.exchange.sync_errors import SyncError
from holdfast.core.exchange.verdict import ConflictState, NewConflict, Verdict
from holdfast.core.task import Task
from holdfast.store.script import Script, call
from holdfast.sync.exchange.push_effects import Sender, Stopped
from holdfast.sync.exchange.push_state import ConflictToAdd, PushState, change_json, content_json
from holdfast.sync.rows import own

OPEN_OF_TASK_MAX: Final = 100
OPEN_MAX: Final = 10_000
"""Open conflicts of a project. Pushes at the same moment may each add theirs beyond it."""


def record_conflict(
    state: PushState, item: Item, verdict: Verdict, conflict_id: str, sender: Sender
) -> Script[str | None]:
    """Keeps both sides of a conflict, if there is one. Returns its id. Stopped if too many are open."""
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
        yield from _check_room(state, task)
    resolution = on.resolution.value if on.resolution and not is_open else None
    state.conflicts.append(
        ConflictToAdd(
            id=conflict_id,
            task_id=task.id,
            client_id=item.id,
            kind=on.conflict.kind.value,
            base_version=item.expected_version,
            server_version=task.version,
            server_json=content_json(task, state.row(task)),
            client_json=change,
            mutation_id=item.mutation_id,
            state=on.conflict.state.value,
            resolution=resolution,
            settled_by=None if is_open else "strategy",
        )
    )
    state.tally["conflicts_total"] += 1
    state.tally["conflicts_open"] += int(is_open)
    _mention(state, task, on.conflict, conflict_id, sender)
    return conflict_id


def _open(state: PushState, task: Task, change: str, sender: Sender) -> Script[str | None]:
    """The open conflict of this content. The task is locked, so no other push adds one meanwhile."""
    for new in state.conflicts:
        if new.is_open and (new.task_id, new.client_json) == (task.id, change):
            return new.id
    rows = yield call(own("same_conflict"), task_id=task.id, node=sender.node, client_json=change)
    return str(rows[0][0]) if rows else None


def _check_room(state: PushState, task: Task) -> Script[None]:
    if state.conflicts_left is None:
        rows = yield call(own("read_tally"), project=task.project)
        state.conflicts_left = OPEN_MAX - dict(rows).get("conflicts_open", 0)
    if state.conflicts_left <= state.tally["conflicts_open"]:
        text = f"project '{task.project}' has {OPEN_MAX} open conflicts: settle some of them first"
        raise Stopped(SyncError.CONFLICTS_FULL, text)
    rows = yield call(own("open_of_task"), task_id=task.id, limit=OPEN_OF_TASK_MAX)
    new = sum(row.is_open and row.task_id == task.id for row in state.conflicts)
    if len(rows) + new >= OPEN_OF_TASK_MAX:
        text = f"the task has {OPEN_OF_TASK_MAX} open conflicts: settle some of them first"
        raise Stopped(SyncError.CONFLICTS_FULL, text)


def _mention(
    state: PushState, task: Task, conflict: NewConflict, conflict_id: str, sender: Sender
) -> None:
    data = {"conflict": conflict_id, "kind": conflict.kind.value, "state": conflict.state.value}
    data["node"] = sender.node
    now, project = state.work.now, task.event_project
    event = NewEvent("conflict.recorded", now, task.id, task.type, data, project, task.version)
    state.work.mention([event])
