"""Plain tasks of one batch that differ only in id and payload.

Promises: a sequence of submissions like any other. Tasks are made when they are read, in order and in parts,
so a store can send the first ones while the payloads of the others are still unchecked. Each task is made
once: a second reader gets the same ids. Never: holds a task of another type, project or queue than the model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias, overload

from msgspec.structs import replace

from holdfast.core.submit import Submission

FIRST_PART: Final = 200
"""Tasks of the first part. It is small, so that the server begins soon."""
GROWTH: Final = 4
"""Each part is at most this many times as large as the one before. The server takes a few times as long for a
task as its preparation takes."""
PART_MAX: Final = 1_024
"""The largest part takes a server some milliseconds. Each statement has a time limit."""
MakePayloads: TypeAlias = Callable[[int, int], list[str]]
"""Checks the payloads from one place to another, and writes them as JSON. Raises InvalidInput."""
MakeIds: TypeAlias = Callable[[int], list[str]]
"""Makes this many new task ids."""


def parts_of(count: int) -> Iterator[tuple[int, int]]:
    """Where each part of a group of this size begins and ends."""
    start, size = 0, FIRST_PART
    while count - start > size:
        yield start, start + size
        start, size = start + size, min(GROWTH * size, PART_MAX)
    yield start, count


def make(group: Sequence[Submission]) -> None:
    """Makes all tasks of a group now."""
    if isinstance(group, AlikeTasks):
        group.make()


class AlikeTasks(Sequence[Submission]):
    """At least one task."""

    __slots__ = ("_count", "_ids", "_make_ids", "_make_payloads", "_payloads", "model")

    def __init__(
        self, model: Submission, count: int, make_ids: MakeIds, make_payloads: MakePayloads
    ) -> None:
        """`model`: a plain task with the values that all of them share."""
        self.model = model
        self._count = count
        self._make_ids = make_ids
        self._make_payloads = make_payloads
        self._ids: list[str] = []
        self._payloads: list[str] = []

    def make(self, stop: int | None = None) -> None:
        """Makes the tasks before this place, or all."""
        made = len(self._ids)
        until = self._count if stop is None else min(stop, self._count)
        if until > made:
            self._payloads += self._make_payloads(made, until)
            self._ids += self._make_ids(until - made)

    def ids(self, start: int = 0, stop: int | None = None) -> list[str]:
        """The ids of a part."""
        self.make(stop)
        return self._ids[start:stop]

    def payloads(self, start: int = 0, stop: int | None = None) -> list[str]:
        """The payloads of a part, as JSON."""
        self.make(stop)
        return self._payloads[start:stop]

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, at: int) -> Submission: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Submission]: ...
    def __getitem__(self, at: int | slice) -> Submission | Sequence[Submission]:
        self.make()
        if isinstance(at, slice):
            return list(map(self._made, self._ids[at], self._payloads[at]))
        return self._made(self._ids[at], self._payloads[at])

    def __iter__(self) -> Iterator[Submission]:
        self.make()
        return map(self._made, self._ids, self._payloads)

    def _made(self, task_id: str, payload_json: str) -> Submission:
        task = replace(self.model.task, id=task_id, payload_json=payload_json)
        return replace(self.model, task=task)
