"""Values beside text, lists, hashes and sets: streams and sorted sets."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from typing import Final, TypeAlias

Id: TypeAlias = tuple[int, int]

PART_MAX: Final = 2**64 - 1
ID_ZERO: Final[Id] = (0, 0)
ID_MAX: Final[Id] = (PART_MAX, PART_MAX)


class Stream:
    """Entries with increasing ids, and the last id ever used."""

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
        """Drops the oldest entries. Returns how many."""
        gone = self.ids[: max(0, len(self.ids) - maxlen)]
        del self.ids[: len(gone)]
        for id in gone:
            del self.fields[id]
        return len(gone)


def following(id: Id) -> Id:
    """The next possible id; not for the largest one."""
    ms, number = id
    return (ms, number + 1) if number < PART_MAX else (ms + 1, 0)


def id_text(id: Id) -> str:
    return f"{id[0]}-{id[1]}"


class ZSet:
    """Members ordered by (score, text): a dict of scores and a sorted list."""

    __slots__ = ("order", "scores")

    def __init__(self) -> None:
        self.scores: dict[str, float] = {}
        self.order: list[tuple[float, str]] = []

    def __len__(self) -> int:
        return len(self.scores)

    def put(self, member: str, score: float) -> None:
        before = self.scores.get(member)
        if before is not None:
            self._forget(member, before)
        self.scores[member] = score
        insort(self.order, (score, member))

    def remove(self, member: str) -> bool:
        score = self.scores.pop(member, None)
        if score is None:
            return False
        self._forget(member, score)
        return True

    def pop_lowest(self, count: int) -> list[tuple[float, str]]:
        taken = self.order[:count]
        del self.order[:count]
        for _, member in taken:
            del self.scores[member]
        return taken

    def between(
        self, low: float, high: float, *, without_low: bool, without_high: bool
    ) -> list[tuple[float, str]]:
        start = (bisect_right if without_low else bisect_left)(self.order, low, key=_score)
        stop = (bisect_left if without_high else bisect_right)(self.order, high, key=_score)
        return self.order[start:stop]

    def _forget(self, member: str, score: float) -> None:
        del self.order[bisect_left(self.order, (score, member))]


def _score(item: tuple[float, str]) -> float:
    return item[0]
