"""The rows that running tasks add to: output, metrics and checkpoints.

A transaction reads what it needs (`load`), adds changes in memory, and writes everything once (`save`). The
rows of a task change only under the lock of the task.
Promises: those of `store.scripts.live`; the last `CHECKPOINTS_MAX` checkpoints of a task are kept. Never:
checks a fence (the caller has).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from holdfast.core.task import Task
from holdfast.core.worker.wire import CheckpointChange
from holdfast.store.script import Script, call, call_rows, statements_of
from holdfast.store.scripts.checkpoints import CHECKPOINTS_MAX
from holdfast.store.scripts.live import MetricRows, OutputRows, Stream

own: Final = statements_of("holdfast.sync.worker")
"""Names the statements of this package."""


class LiveRows:
    """What one transaction adds."""

    __slots__ = ("_checkpoint_ids", "_checkpoints", "_numbers", "metrics", "output")

    def __init__(self) -> None:
        self.output = OutputRows()
        self.metrics = MetricRows()
        self._numbers: dict[str, int] = {}
        self._checkpoint_ids: dict[str, str] = {}
        self._checkpoints: list[tuple[Any, ...]] = []

    def load(
        self, streams: Iterable[Stream], checkpoints: Iterable[CheckpointChange]
    ) -> Script[None]:
        """Reads the ends of these streams, and which of these checkpoints exist."""
        yield from self.output.load(streams)
        changes = list(checkpoints)
        if ids := sorted({change.checkpoint_id for change in changes}):
            existing = yield call(own("existing_checkpoints"), ids=ids)
            self._checkpoint_ids = {row[0]: row[1] for row in existing}
            tasks = sorted({change.task_id for change in changes})
            numbers = yield call(own("checkpoint_numbers"), ids=tasks)
            self._numbers = {row[0]: row[1] for row in numbers}

    def owner_of_checkpoint(self, checkpoint_id: str) -> str | None:
        """The task that has a checkpoint of this id."""
        return self._checkpoint_ids.get(checkpoint_id)

    def add_checkpoint(self, task: Task, change: CheckpointChange, data_json: str) -> None:
        nth = self._numbers.get(task.id, 0) + 1
        self._numbers[task.id] = nth
        self._checkpoint_ids[change.checkpoint_id] = task.id
        self._checkpoints.append(
            (
                *(change.checkpoint_id, task.id, task.fence, task.attempts, nth),
                *(change.type, change.note, data_json),
            )
        )

    def save(self, now: float) -> Script[None]:
        yield from self.output.save(now)
        yield from self.metrics.save()
        if self._checkpoints:
            yield call_rows(own("insert_checkpoints"), self._checkpoints, now=now)
            full = {row[1]: self._numbers[row[1]] - CHECKPOINTS_MAX for row in self._checkpoints}
            if drop := sorted(item for item in full.items() if item[1] > 0):
                yield call_rows(own("drop_checkpoints"), [tuple(item) for item in drop])
