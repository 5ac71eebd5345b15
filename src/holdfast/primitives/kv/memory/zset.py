"""A sorted set: members in the order of (score, text)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort


class ZSet:
    """A dict for the scores and a sorted list for the order."""

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
