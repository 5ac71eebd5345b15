"""A stream: entries under rising ids, and the last id ever given."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Final, TypeAlias

Id: TypeAlias = tuple[int, int]

PART_MAX: Final = 2**64 - 1
ID_ZERO: Final[Id] = (0, 0)
ID_MAX: Final[Id] = (PART_MAX, PART_MAX)


class Stream:
    """Ids in order, and the fields of each."""

    __slots__ = ("fields", "ids", "last")

    def __init__(self) -> None:
        self.ids: list[Id] = []
        self.fields: dict[Id, list[str]] = {}
        self.last = ID_ZERO

    def __len__(self) -> int:
        return len(self.ids)

    def append(self, id: Id, fields: list[str]) -> None:
        self.ids.append(id)
        self.fields[id] = fields
        self.last = id

    def between(self, start: Id, end: Id, count: int | None = None) -> list[Id]:
        low, high = bisect_left(self.ids, start), bisect_right(self.ids, end)
        return self.ids[low : high if count is None else min(high, low + count)]

    def remove(self, id: Id) -> bool:
        if self.fields.pop(id, None) is None:
            return False
        del self.ids[bisect_left(self.ids, id)]
        return True

    def trim(self, maxlen: int) -> int:
        """Drop the oldest; how many went."""
        gone = self.ids[: max(0, len(self.ids) - maxlen)]
        del self.ids[: len(gone)]
        for id in gone:
            del self.fields[id]
        return len(gone)


def following(id: Id) -> Id:
    """The next id there can be; not for the greatest."""
    ms, number = id
    return (ms, number + 1) if number < PART_MAX else (ms + 1, 0)


def id_text(id: Id) -> str:
    return f"{id[0]}-{id[1]}"
