"""The keys of the memory twin: values, expiry, who watches, and the order of a scan.

Promises: a key lives while `now <= deadline` in whole milliseconds, as in Redis; one command (or one
transaction) sees one moment; a key that is there during a whole scan is found, and a scan ends however
many keys are added meanwhile. Never: a lock (the caller holds it), a timer, a clock of its own.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable
from itertools import takewhile
from typing import Final, TypeAlias, TypeVar

from holdfast.primitives.kv.memory.values import Stream, ZSet
from holdfast.primitives.kv.problems import WRONG_TYPE, Refused

Value: TypeAlias = "str | dict[str, str] | deque[str] | set[str] | ZSet | Stream"
V = TypeVar("V", str, "dict[str, str]", "deque[str]", "set[str]", ZSet, Stream)

NOT_READ: Final = -1
SPARE: Final = 64
"""Stale entries of an index that are not worth a clean-up."""
SWEEP: Final = 2
"""Expired keys that one new deadline clears away: faster than they can come."""


class Watch:
    """Keys that somebody watches, and whether one has changed since."""

    __slots__ = ("is_broken", "keys")

    def __init__(self, keys: Iterable[str]) -> None:
        self.keys = frozenset(keys)
        self.is_broken = False


class Keyspace:
    """Everything that the twin keeps."""

    __slots__ = (
        "_clock", "_due", "_moment", "_order", "_place", "_ranks", "_watches", "deadlines", "values",
    )  # fmt: skip

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._moment = NOT_READ
        self.values: dict[str, Value] = {}
        self.deadlines: dict[str, int] = {}
        self._due: list[tuple[int, str]] = []
        self._watches: dict[str, set[Watch]] = {}
        self._place: dict[str, int] = {}
        self._ranks: list[int] = []
        self._order: list[str] = []

    # -- time

    def begin(self) -> None:
        """A new command: time may have moved."""
        self._moment = NOT_READ

    def now_ms(self) -> int:
        """The moment of this command. A hair is added: 0.3 s is 300 ms, though its float is less."""
        if self._moment == NOT_READ:
            self._moment = int(self._clock() * 1000 + 0.001)
        return self._moment

    # -- values

    def find(self, key: str) -> Value | None:
        if key in self.deadlines and self.now_ms() > self.deadlines[key]:
            self.drop(key)
        return self.values.get(key)

    def find_as(self, key: str, kind: type[V]) -> V | None:
        """The value under a key, which must be of that kind."""
        found = self.find(key)
        if found is None or isinstance(found, kind):
            return found
        raise Refused(WRONG_TYPE)

    def make(self, key: str, kind: type[V]) -> V:
        """The same; a new one when there is none."""
        found = self.find_as(key, kind)
        if found is None:
            found = kind()
            self.values[key] = found
        return found

    def put(self, key: str, value: Value) -> None:
        """Write a value that lives for ever, whatever was there."""
        self.values[key] = value
        if self.deadlines:
            self.deadlines.pop(key, None)
        self.touch(key)

    def drop(self, key: str) -> None:
        del self.values[key]
        self.deadlines.pop(key, None)
        self._place.pop(key, None)
        self.touch(key)

    def changed(self, key: str, value: dict[str, str] | deque[str] | set[str] | ZSet) -> None:
        """After taking something out: an empty collection is gone."""
        if value:
            self.touch(key)
        else:
            self.drop(key)

    # -- expiry

    def end_at(self, key: str, deadline_ms: int) -> None:
        self.deadlines[key] = deadline_ms
        heapq.heappush(self._due, (deadline_ms, key))
        self._sweep()
        self.touch(key)

    def _sweep(self) -> None:
        """Clear away a few keys that have expired without anybody asking for them."""
        now_ms = self.now_ms()
        for _ in range(SWEEP):
            if not self._due or self._due[0][0] >= now_ms:
                break
            self.find(heapq.heappop(self._due)[1])
        if len(self._due) > 2 * len(self.deadlines) + SPARE:
            self._due = [(deadline, key) for key, deadline in self.deadlines.items()]
            heapq.heapify(self._due)

    # -- watching

    def watch(self, keys: Iterable[str]) -> Watch:
        watch = Watch(keys)
        for key in watch.keys:
            self.find(key)  # what has expired by now is absent, not a change to come
            self._watches.setdefault(key, set()).add(watch)
        return watch

    def unwatch(self, watch: Watch) -> bool:
        """Stop watching; True when nothing has changed, an expiry included."""
        for key in watch.keys:
            self.find(key)
            watchers = self._watches[key]
            watchers.discard(watch)
            if not watchers:
                del self._watches[key]
        return not watch.is_broken

    def touch(self, key: str) -> None:
        if self._watches:
            for watch in self._watches.get(key, ()):
                watch.is_broken = True

    # -- scanning

    def scan(self, cursor: int, count: int) -> tuple[int, list[str]]:
        """Up to `count` keys below rank `cursor` (0: from the top) and the cursor that goes on.

        Each key has a rank that rises with its birth. A scan goes down, so what is born meanwhile is
        above it and cannot keep it from ending; whoever stays keeps the rank and is met once.
        """
        self._rank_newcomers()
        stop = bisect_left(self._ranks, cursor) if cursor else len(self._ranks)
        start = max(0, stop - count)
        found = [
            key
            for key, rank in zip(self._order[start:stop], self._ranks[start:stop], strict=True)
            if self._place.get(key) == rank
        ]
        following = self._ranks[start] if start else 0
        return following, [key for key in found if self.find(key) is not None]

    def _rank_newcomers(self) -> None:
        """A dict keeps the order of birth, so those without a rank are the last ones of it."""
        ranks, order, place = self._ranks, self._order, self._place
        if len(ranks) > 2 * len(place) + SPARE:
            kept = [(r, k) for r, k in zip(ranks, order, strict=True) if place.get(k) == r]
            last = ranks[-1]
            ranks[:], order[:] = [r for r, _ in kept], [k for _, k in kept]
            if not kept or ranks[-1] != last:  # ranks never come again
                ranks.append(last)
                order.append("")
        top = ranks[-1] if ranks else 0
        born = list(takewhile(lambda key: key not in place, reversed(self.values)))
        for rank, key in enumerate(reversed(born), start=top + 1):
            place[key] = rank
            ranks.append(rank)
            order.append(key)
