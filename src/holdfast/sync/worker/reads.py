"""Reads of what running tasks add to: output, metrics, checkpoints. The caller checks the project."""

from __future__ import annotations

from typing import Final

import msgspec

from holdfast.core.check import check_choice, check_whole
from holdfast.core.output import Piece, StreamName
from holdfast.core.wire import WHOLE_MAX
from holdfast.store.script import call, one
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
                own("output_pieces"),
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


async def metrics(store: Store, task_id: str) -> dict[str, float]:
    """The totals of a task over all its attempts."""
    rows = await store.read(lambda: one(call(own("task_metrics"), ids=[task_id])))
    return {name: total for _, name, total in rows}


async def checkpoints(store: Store, task_id: str) -> list[Checkpoint]:
    """The last checkpoints of a task, oldest first."""
    rows = await store.read(lambda: one(call(own("task_checkpoints"), task_id=task_id)))
    return [Checkpoint(*row) for row in rows]
