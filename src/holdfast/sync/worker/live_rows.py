"""The rows that running tasks add to: output, metrics and checkpoints.

A transaction reads what it needs (`load`), adds changes in memory, and writes everything once (`save`). The
rows of a task change only under the lock of the task.
Promises: output has no gap and no byte twice; totals only rise; the last `CHECKPOINTS_MAX` checkpoints of a
task are kept. Never: checks a fence (the caller has).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from holdfast.core import output
from holdfast.core.output import HEAD_BYTES, Piece, Placed, Placement
from holdfast.core.task import Task
from holdfast.core.worker.wire import CheckpointChange, OutputChunk
from holdfast.store.script import Script, call, call_rows
from holdfast.store.scripts.checkpoints import CHECKPOINTS_MAX

_PACKAGE: Final = "holdfast.sync.worker"


class Stream(NamedTuple):
    """One stream of output of one run."""

    task_id: str
    fence: int
    name: str

    @property
    def label(self) -> str:
        """The key of the stream in an acknowledgement."""
        return f"{self.task_id}/{self.fence}/{self.name}"


def own(statement: str) -> str:
    """The name of a statement of this package."""
    return f"{_PACKAGE}:{statement}"


class LiveRows:
    """What one transaction adds."""

    __slots__ = (
        *("_added", "_checkpoint_ids", "_checkpoints", "_ends", "_loaded_ends"),
        *("_metrics", "_numbers"),
    )

    def __init__(self) -> None:
        self._ends: dict[Stream, int] = {}
        self._loaded_ends: dict[Stream, int] = {}
        self._added: dict[Stream, list[Piece]] = {}
        self._metrics: dict[tuple[str, str, int, str], float] = {}
        self._numbers: dict[str, int] = {}
        self._checkpoint_ids: dict[str, str] = {}
        self._checkpoints: list[tuple[Any, ...]] = []

    def load(
        self, streams: Iterable[Stream], checkpoints: Iterable[CheckpointChange]
    ) -> Script[None]:
        """Reads the ends of these streams, and which of these checkpoints exist."""
        if rows := sorted(set(streams)):
            ends = yield call_rows(own("output_ends"), [tuple(stream) for stream in rows])
            self._loaded_ends = {Stream(*row[:3]): row[3] or 0 for row in ends}
            self._ends = dict(self._loaded_ends)
        changes = list(checkpoints)
        if ids := sorted({change.checkpoint_id for change in changes}):
            existing = yield call(own("existing_checkpoints"), ids=ids)
            self._checkpoint_ids = {row[0]: row[1] for row in existing}
            tasks = sorted({change.task_id for change in changes})
            numbers = yield call(own("checkpoint_numbers"), ids=tasks)
            self._numbers = {row[0]: row[1] for row in numbers}

    def add_output(self, stream: Stream, chunk: OutputChunk) -> Script[Placed]:
        """Places a chunk. Stored bytes are read only if it starts before the end."""
        end = self._ends.get(stream, 0)
        pieces: tuple[Piece, ...] = ()
        if chunk.start is not None and chunk.start < end:
            rows = yield call(
                own("output_pieces"),
                **_key(stream),
                since=chunk.start,
                until=chunk.start + len(chunk.data),
            )
            stored = [Piece(start, size, _bytes(data)) for start, size, data in rows]
            pieces = (*stored, *self._added.get(stream, ()))
        placed = output.place(end, chunk.start, chunk.data, pieces)
        if placed.outcome is Placement.APPEND:
            self._ends[stream] = placed.end
            self._added.setdefault(stream, []).append(
                Piece(placed.start, len(placed.data), placed.data)
            )
        return placed

    def add_metrics(self, task: Task, node: str, totals: dict[str, float]) -> None:
        for name, value in totals.items():
            key = (task.id, node, task.fence, name)
            self._metrics[key] = max(value, self._metrics.get(key, value))

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
        if self._added:
            yield from self._save_output(now)
        if self._metrics:
            rows = [(*key, value) for key, value in sorted(self._metrics.items())]
            yield call_rows(own("put_metrics"), rows)
        if self._checkpoints:
            yield call_rows(own("insert_checkpoints"), self._checkpoints, now=now)
            full = {row[1]: self._numbers[row[1]] - CHECKPOINTS_MAX for row in self._checkpoints}
            if drop := sorted(item for item in full.items() if item[1] > 0):
                yield call_rows(own("drop_checkpoints"), [tuple(item) for item in drop])

    def _save_output(self, now: float) -> Script[None]:
        rows: list[tuple[Any, ...]] = []
        for stream, pieces in self._added.items():
            data = b"".join(piece.data or b"" for piece in pieces)
            rows += [
                (*stream, start, len(part), part.hex())
                for start, part in output.split(pieces[0].start, data)
            ]
        yield call_rows(own("insert_output"), rows, now=now)
        for stream in self._added:
            through = output.fold_through(self._loaded_ends.get(stream, 0), self._ends[stream])
            if through is not None:
                yield from _fold(stream, through, now)


def _fold(stream: Stream, through: int, now: float) -> Script[None]:
    """Replaces the middle of a stream by one row with its size."""
    gone = yield call(own("fold_output"), **_key(stream), head=HEAD_BYTES, through=through)
    if gone:
        start, size = min(row[0] for row in gone), sum(row[1] for row in gone)
        yield call_rows(own("insert_output"), [(*stream, start, size, None)], now=now)


def _key(stream: Stream) -> dict[str, Any]:
    return {"task_id": stream.task_id, "fence": stream.fence, "stream": stream.name}


def _bytes(data_hex: str | None) -> bytes | None:
    return None if data_hex is None else bytes.fromhex(data_hex)
