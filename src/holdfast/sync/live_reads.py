"""Reads of the live feed beside the events: bytes of output, and what a snapshot shows.

Promises: every read is bounded and served by an index. The caller checks the project.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import msgspec

from holdfast.core.output import Piece
from holdfast.core.task import Status, Task
from holdfast.store.script import Script, call, call_rows, one
from holdfast.store.store import Store
from holdfast.sync.rows import own

LISTED_MAX: Final = 1_000
"""Rows of each list in a snapshot."""
READ_BYTES: Final = 1_048_576
"""Bytes of output that one statement asks for."""


class Chunk(msgspec.Struct, frozen=True):
    """A range of a stream of output."""

    task_id: str
    fence: int
    stream: str
    start: int
    size: int


class OpenConflict(msgspec.Struct, frozen=True):
    """A conflict that is not settled, without its two sides."""

    id: str
    project: str
    task_id: str
    client_id: str
    kind: str
    state: str
    node: str
    mutation_id: str | None
    base_version: int
    server_version: int
    resolution: str | None
    settled_by: str | None
    reason: str | None
    at: float
    version: int


class LiveReads:
    """The reads on one store. `project` None: all projects."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def held_by(self, node: str) -> list[tuple[str, int]]:
        """(task, fence) of the runs of a node."""
        tasks: list[Task] = await self._read("held_by_node", node=node)
        return [(task.id, task.fence) for task in tasks[:LISTED_MAX]]

    async def knows_project(self, project: str) -> bool:
        """Whether the project was created, or has a task."""
        return bool((await self._read("known_project", project=project))[0][0])

    async def counts(self, project: str | None) -> dict[str, int]:
        """The number of tasks by status, from the counters."""
        counts = dict.fromkeys((status.value for status in Status), 0)
        if project is None:
            for *_, status, n in await self._store.feed.counters():
                counts[status] += n
        else:
            for _, status, n in await self._store.feed.project_counters(project):
                counts[status] += n
        return counts

    async def conflicts(self, project: str | None) -> list[OpenConflict]:
        if project is None:
            rows = await self._read("open_conflicts_everywhere", limit=LISTED_MAX)
        else:
            rows = await self._read("open_conflicts", project=project, limit=LISTED_MAX)
        return [OpenConflict(*row) for row in rows]

    async def output(self, chunks: Sequence[Chunk]) -> list[list[Piece]]:
        """The stored pieces of each chunk."""
        pieces: list[list[Piece]] = [[] for _ in chunks]
        for first, part in _parts(chunks):
            rows = await self._store.read(partial(_output, first, part))
            for nth, start, size, data_hex in rows:
                data = None if data_hex is None else bytes.fromhex(data_hex)
                pieces[nth].append(Piece(start, size, data))
        return pieces

    async def _read(self, statement: str, **params: Any) -> list[Any]:
        return await self._store.read(lambda: one(call(own(statement), **params)))


def _parts(chunks: Sequence[Chunk]) -> list[tuple[int, list[Chunk]]]:
    """The chunks in groups of about `READ_BYTES`, each with the number of its first."""
    parts: list[tuple[int, list[Chunk]]] = []
    size = READ_BYTES
    for nth, chunk in enumerate(chunks):
        if size + chunk.size > READ_BYTES:
            parts.append((nth, []))
            size = 0
        parts[-1][1].append(chunk)
        size += chunk.size
    return parts


def _output(first: int, chunks: Sequence[Chunk]) -> Script[list[Any]]:
    rows = [
        (nth, chunk.task_id, chunk.fence, chunk.stream, chunk.start, chunk.start + chunk.size)
        for nth, chunk in enumerate(chunks, first)
    ]
    return (yield call_rows(own("output_of_chunks"), rows))
