"""Rows of decisions, and the end of decisions that their tasks do not wait for any more.

Promises: a row is written as the next version of the one that was read. An open decision has a task that
waits for it: `cancel_left` is part of every transaction that changes tasks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import asdict

from holdfast.core import codec, decision as rules, gate
from holdfast.core.decision import Decision, DecisionState
from holdfast.core.event import NewEvent
from holdfast.core.task import Task
from holdfast.core.transition import new_event
from holdfast.errors import VersionConflict
from holdfast.store.script import Script, call
from holdfast.store.scripts.work import Work

_JSON: Final = {"options": "options_json", "assignees": "assignees_json"}
_RENAMED: Final = {"by": "decided_by", "at": "decided_at"}
_names: Final = msgspec.json.Decoder(tuple[str, ...])


def cancel_left(work: Work) -> Script[None]:
    """Cancels the open decisions of tasks that do not wait for them any more, e.g. because an operator
    aborted the task. Part of every transaction that changes tasks."""
    left = [
        decision_id
        for moved in work.transitions
        if moved.before.gate is not None
        and (decision_id := gate.decision_of(moved.before)) is not None
        and moved.after.gate != moved.before.gate
    ]
    if not left:
        return
    rows = yield call("lock_decisions", ids=sorted(left))
    for decision in map(read_decision, rows):
        if decision.state is DecisionState.OPEN:
            after = rules.cancelled(decision, work.now)
            yield from put(after)
            task = work.tasks[after.task_id]
            work.mention([event_of("decision.cancelled", task, work.now, rules.event_data(after))])


def read_decision(row: Sequence[Any]) -> Decision:
    """The decision of a row, in the order of the statements."""
    values = dict(zip(Decision.__struct_fields__, row, strict=True))
    for field in _JSON:
        values[field] = _names.decode(values[field])
    values["state"] = DecisionState(values["state"])
    return Decision(**values)


def put(decision: Decision) -> Script[None]:
    if not (yield call("put_decision", **_columns(decision))):
        raise VersionConflict(f"decision {decision.id} was changed meanwhile: read it again")


def event_of(kind: str, task: Task, now: float, data: dict[str, Any]) -> NewEvent:
    event = new_event(kind, task, now, **data)
    return msgspec.structs.replace(event, version=task.version)


def _columns(decision: Decision) -> dict[str, Any]:
    values = asdict(decision)
    for field, column in _JSON.items():
        values[column] = codec.dumps(list(values.pop(field)))
    for field, column in _RENAMED.items():
        values[column] = values.pop(field)
    return {**values, "state": decision.state.value}
