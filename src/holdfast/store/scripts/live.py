"""The rows that running tasks add to beside their own: output and metrics.

A transaction reads what it needs (`load`), adds changes in memory, and writes everything once (`save`). The
rows of a task change only under the lock of the task.
Promises: output has no gap and no byte twice; totals only rise. Never: checks a fence (the caller has).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from holdfast.core import output
from holdfast.core.command import OutputPart, Report
from holdfast.core.event import NewEvent
from holdfast.core.output import HEAD_BYTES, Piece, Placed, Placement
from holdfast.core.task import Task
from holdfast.core.totals import reported
from holdfast.core.transition import Ruling, applied
from holdfast.errors import Conflict
from holdfast.store.beside import Beside
from holdfast.store.script import Script, call, call_rows

REFUSED: Final = {
    Placement.GAP: "output starts at {start}, but it ends at {end}: send from there",
    Placement.MISMATCH: "the bytes from {start} on differ from those that were sent before",
}


class Stream(NamedTuple):
    """One stream of output of one run."""

    task_id: str
    fence: int
    name: str

    @property
    def label(self) -> str:
        """The key of the stream in an acknowledgement."""
        return f"{self.task_id}/{self.fence}/{self.name}"


class OutputRows:
    """The output that one transaction adds."""

    __slots__ = ("_added", "_ends", "_loaded_ends")

    def __init__(self) -> None:
        self._ends: dict[Stream, int] = {}
        self._loaded_ends: dict[Stream, int] = {}
        self._added: dict[Stream, list[Piece]] = {}

    def load(self, streams: Iterable[Stream]) -> Script[None]:
        """Reads the ends of these streams."""
        if rows := sorted(set(streams)):
            ends = yield call_rows("output_ends", [tuple(stream) for stream in rows])
            self._loaded_ends = {Stream(*row[:3]): row[3] or 0 for row in ends}
            self._ends = dict(self._loaded_ends)

    def add(self, stream: Stream, start: int | None, data: bytes) -> Script[Placed]:
        """Places a chunk. Stored bytes are read only if it starts before the end."""
        end = self._ends.get(stream, 0)
        pieces: tuple[Piece, ...] = ()
        if start is not None and start < end:
            rows = yield call("output_pieces", **_key(stream), since=start, until=start + len(data))
            stored = [Piece(at, size, _bytes(text)) for at, size, text in rows]
            pieces = (*stored, *self._added.get(stream, ()))
        placed = output.place(end, start, data, pieces)
        if placed.outcome is Placement.APPEND:
            self._ends[stream] = placed.end
            self._added.setdefault(stream, []).append(
                Piece(placed.start, len(placed.data), placed.data)
            )
        return placed

    def add_gap(self, stream: Stream, start: int, size: int) -> int:
        """Notes bytes that the runner has dropped. Returns where the stream ends then."""
        end = self._ends.get(stream, 0)
        if start <= end < start + size:
            rest = start + size - end
            self._added.setdefault(stream, []).append(Piece(end, rest, None))
            self._ends[stream] = end + rest
        return self._ends.get(stream, 0)

    def end(self, stream: Stream) -> int:
        """Where the stream ends, with what was added."""
        return self._ends.get(stream, 0)

    def is_stored(self, stream: Stream) -> bool:
        """Whether the stream has rows already."""
        return self._loaded_ends.get(stream, 0) > 0

    def take(self, stream: Stream) -> list[Piece]:
        """What was added to the stream. It is not saved as rows."""
        return self._added.pop(stream, [])

    def save(self, now: float) -> Script[None]:
        if not self._added:
            return
        rows: list[tuple[Any, ...]] = []
        for stream, pieces in self._added.items():
            for start, part in _joined(pieces):
                if isinstance(part, int):
                    rows.append((*stream, start, part, None))
                    continue
                rows += [(*stream, at, len(d), d.hex()) for at, d in output.split(start, part)]
        yield call_rows("insert_output", rows, now=now)
        for stream in self._added:
            through = output.fold_through(self._loaded_ends.get(stream, 0), self._ends[stream])
            if through is not None:
                yield from _fold(stream, through, now)


def _joined(pieces: Sequence[Piece]) -> Iterator[tuple[int, bytes | int]]:
    """(start, bytes) of parts that follow each other, and (start, size) of gaps."""
    data: list[bytes] = []
    start = 0
    for piece in pieces:
        if piece.data is None:
            if data:
                yield start, b"".join(data)
                data = []
            yield piece.start, piece.size
            continue
        if not data:
            start = piece.start
        data.append(piece.data)
    if data:
        yield start, b"".join(data)


class MetricRows:
    """The totals that one transaction adds."""

    __slots__ = ("_totals",)

    def __init__(self) -> None:
        self._totals: dict[tuple[str, str, int, str], float] = {}

    def add(self, task: Task, node: str, totals: dict[str, float]) -> None:
        for name, value in totals.items():
            key = (task.id, node, task.fence, name)
            self._totals[key] = max(value, self._totals.get(key, value))

    def save(self) -> Script[None]:
        if self._totals:
            rows = [(*key, value) for key, value in sorted(self._totals.items())]
            yield call_rows("put_metrics", rows)


class LiveReport(Beside):
    """Adds the output and the totals of a report, if the run of the report holds its task."""

    __slots__ = ("_report",)

    def __init__(self, report: Report) -> None:
        self._report = report

    def after(self, outcome: object, now: float) -> Script[Sequence[NewEvent]]:
        assert isinstance(outcome, list)
        ruling: Ruling = outcome[0]
        task = applied(ruling)
        events: list[NewEvent] = []
        if task is not None and self._report.output is not None:
            events += yield from _add_output(task, self._report.output, now)
        if task is not None and self._report.totals:
            rows, node = MetricRows(), task.node or ""
            rows.add(task, node, self._report.totals)
            yield from rows.save()
            events.append(reported(task, node, task.fence, self._report.totals, now))
        return events


def _add_output(task: Task, part: OutputPart, now: float) -> Script[list[NewEvent]]:
    rows, stream = OutputRows(), Stream(task.id, task.fence, part.stream)
    yield from rows.load([stream])
    placed = yield from rows.add(stream, part.start, part.data)
    template = REFUSED.get(placed.outcome)
    if template is not None:
        raise Conflict(template.format(start=part.start, end=placed.end))
    if placed.outcome is Placement.DUPLICATE:
        return []
    yield from rows.save(now)
    return [output_event(task, part.stream, placed, now, node=task.node)]


def output_event(
    task: Task, stream: str, placed: Placed, now: float, *, node: str | None
) -> NewEvent:
    """The event of bytes that were appended. It has none of them: they are read with the task."""
    where = {"stream": stream, "start": placed.start, "size": len(placed.data)}
    data = {"node": node, "fence": task.fence, **where}
    return NewEvent("task.output", now, task.id, task.type, data, task.event_project, task.version)


def _fold(stream: Stream, through: int, now: float) -> Script[None]:
    """Replaces the middle of a stream by one row with its size."""
    gone = yield call("fold_output", **_key(stream), head=HEAD_BYTES, through=through)
    if gone:
        start, size = min(row[0] for row in gone), sum(row[1] for row in gone)
        yield call_rows("insert_output", [(*stream, start, size, None)], now=now)


def _key(stream: Stream) -> dict[str, Any]:
    return {"task_id": stream.task_id, "fence": stream.fence, "stream": stream.name}


def _bytes(data_hex: str | None) -> bytes | None:
    return None if data_hex is None else bytes.fromhex(data_hex)
