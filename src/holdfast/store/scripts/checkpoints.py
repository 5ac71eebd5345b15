"""Rows of checkpoints.

Promises: the last `CHECKPOINTS_MAX` of a task are kept. A named checkpoint and its row are one transaction. A
repeat adds no second one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from holdfast.core.command import NamedPoint
from holdfast.core.event import NewEvent
from holdfast.core.task import Task
from holdfast.core.transition import Transition
from holdfast.store.beside import Beside
from holdfast.store.script import Script, call

CHECKPOINTS_MAX: Final = 20
"""Checkpoints of a task that are kept."""


class PointExists(Exception):
    """An earlier transaction stored the checkpoint, and its answer was lost."""


class PointRow(Beside):
    """Adds the row of a named checkpoint to the report that brings it."""

    __slots__ = ("_data_json", "_point")

    def __init__(self, point: NamedPoint, data_json: str) -> None:
        self._point = point
        self._data_json = data_json

    def before(self, now: float) -> Script[None]:
        if (yield call("get_checkpoint", id=self._point.id)):
            raise PointExists

    def after(self, outcome: object, now: float) -> Script[Sequence[NewEvent]]:
        assert isinstance(outcome, list)
        if isinstance(outcome[0], Transition):
            yield from add(outcome[0].after, self._point, self._data_json, now)
        return ()


def add(task: Task, point: NamedPoint, data_json: str, now: float) -> Script[None]:
    """Adds the row of a run that holds its task."""
    rows = yield call(
        "add_checkpoint",
        id=point.id,
        task_id=task.id,
        fence=task.fence,
        attempt=task.attempts,
        type=point.type,
        note=point.note,
        data_json=data_json,
        now=now,
    )
    nth = int(rows[0][0])
    if nth > CHECKPOINTS_MAX:
        yield call("drop_old_checkpoints", task_id=task.id, through=nth - CHECKPOINTS_MAX)
