"""Reads of what running tasks add to: output, checkpoints.

Promises: a page of output starts where it was asked to; `next` continues it without a gap or a byte twice.
Never: checks the project; the caller does.
"""

from __future__ import annotations

from typing import Final

import msgspec

from holdfast.core.check import check_choice, check_whole
from holdfast.core.output import Piece, StreamName
from holdfast.core.task import LEASED, Task
from holdfast.core.wire import WHOLE_MAX
from holdfast.store.script import call, call_rows, one
from holdfast.store.store import Store
from holdfast.sync.worker.live_rows import own

PAGE_BYTES: Final = 262_144
"""Bytes of output that one read asks for. Rows are whole, so an answer may have one row more."""


class Checkpoint(msgspec.Struct, frozen=True):
    """A saved point of a task."""

    id: str
    fence: int
    attempt: int
    nth: int
    type: str
    note: str
    data_json: str
    created_at: float


async def output(
    store: Store, task_id: str, fence: int, stream: str, *, start: int = 0, size: int = PAGE_BYTES
) -> list[Piece]:
    """The stored pieces of a stream that overlap a range. A piece without data was folded."""
    check_choice("stream", stream, StreamName)
    check_whole("start", start, least=0, most=WHOLE_MAX)
    check_whole("size", size, least=1, most=4 * PAGE_BYTES)
    rows = await store.read(
        lambda: one(
            call(
                "output_pieces",
                task_id=task_id,
                fence=fence,
                stream=stream,
                since=start,
                until=start + size,
            )
        )
    )
    return [
        Piece(first, length, None if data_hex is None else bytes.fromhex(data_hex))
        for first, length, data_hex in rows
    ]


class OutputPage(msgspec.Struct, frozen=True):
    """A part of a stream."""

    stream: str
    fence: int
    """The run that wrote it."""
    start: int
    data: bytes
    """The bytes from `start` to `next`, without those of the gaps."""
    next: int
    end: int
    """Where the stream ends by now."""
    complete: bool
    """Whether the run has ended, so that the stream does not grow any more."""
    gaps: list[tuple[int, int]]
    """Start and size of each part of which only the size is kept."""


async def output_page(
    store: Store,
    task: Task,
    stream: str,
    *,
    fence: int | None = None,
    start: int = 0,
    size: int = PAGE_BYTES,
) -> OutputPage:
    """A page of a stream of a task: of its latest run with output unless `fence` names one."""
    check_choice("stream", stream, StreamName)
    if fence is None:
        latest = await store.read(
            lambda: one(call(own("latest_output"), task_id=task.id, stream=stream))
        )
        fence, end = latest[0] if latest else (task.fence, 0)
    else:
        check_whole("fence", fence, least=0, most=WHOLE_MAX)
        key = (task.id, fence, stream)
        ends = await store.read(lambda: one(call_rows("output_ends", [key])))
        end = ends[0][3] or 0
    pieces = await output(store, task.id, fence, stream, start=start, size=size)
    through = min(start + size, max(end, start))
    parts, gaps = [], []
    for piece in pieces:
        first, last = max(start, piece.start), min(through, piece.start + piece.size)
        if piece.data is not None:
            parts.append(piece.data[first - piece.start : last - piece.start])
        elif first < last:
            gaps.append((first, last - first))
    is_over = task.fence != fence or task.status not in LEASED
    return OutputPage(
        stream=stream,
        fence=fence,
        start=start,
        data=b"".join(parts),
        next=through,
        end=end,
        complete=is_over,
        gaps=gaps,
    )


async def checkpoints(store: Store, task_id: str) -> list[Checkpoint]:
    """The last checkpoints of a task, oldest first."""
    rows = await store.read(lambda: one(call(own("task_checkpoints"), task_id=task_id)))
    return [Checkpoint(*row) for row in rows]
