"""The keys of the memory backend: values, expiry, watches, and the order of a scan.

Promises: a key exists while `now <= deadline` in whole milliseconds, as in Redis. One command, or one
transaction, sees one time. A key that exists during a whole scan is returned, and a scan ends however
many keys are added.
Never: takes a lock (the caller holds it), starts a timer or reads a system clock.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable
from itertools import takewhile
from typing import Final, TypeAlias, TypeVar

from holdfast.primitives.kv._memory.values import Stream, ZSet
from holdfast.primitives.kv._problems import WRONG_TYPE, Refused

Value: TypeAlias = "str | dict[str, str] | deque[str] | set[str] | ZSet | Stream"
V = TypeVar("V", str, "dict[str, str]", "deque[str]", "set[str]", ZSet, Stream)

NOT_READ: Final = -1
SPARE: Final = 64
"""Below this number of stale entries an index is not cleaned up."""
SWEEP: Final = 2
"""Expired keys that one new deadline removes: more than it adds."""


class Watch:
    """Watched keys, and whether one has changed since."""

    __slots__ = ("is_broken", "keys")

    def __init__(self, keys: Iterable[str]) -> None:
        self.keys = frozenset(keys)
        self.is_broken = False


class Keyspace:
    """All data of the backend."""

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
        """Starts a command: reads the time."""
        self._moment = NOT_READ

    def now_ms(self) -> int:
        """The time of this command. A small amount is added, because the float of 0.3 s is below 300 ms."""
        if self._moment == NOT_READ:
            self._moment = int(self._clock() * 1000 + 0.001)
        return self._moment

    # -- values

    def find(self, key: str) -> Value | None:
        if key in self.deadlines and self.now_ms() > self.deadlines[key]:
            self.drop(key)
        return self.values.get(key)

    def find_as(self, key: str, kind: type[V]) -> V | None:
        """The value of a key, which must be of that kind."""
        found = self.find(key)
        if found is None or isinstance(found, kind):
            return found
        raise Refused(WRONG_TYPE)

    def make(self, key: str, kind: type[V]) -> V:
        """The same; creates the value when the key does not exist."""
        found = self.find_as(key, kind)
        if found is None:
            found = kind()
            self.values[key] = found
        return found

    def put(self, key: str, value: Value) -> None:
        """Writes a value without expiry, replacing any other."""
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
        """Called after a removal: an empty collection is deleted."""
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
        """Removes a few expired keys that no command has asked for."""
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
            self.find(key)  # a key that has expired by now is absent: its removal is not a change
            self._watches.setdefault(key, set()).add(watch)
        return watch

    def unwatch(self, watch: Watch) -> bool:
        """Stops watching. True when no key has changed or expired."""
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
        """Up to `count` keys below rank `cursor` (0: from the top) and the next cursor.

        Each key has a rank that increases with its creation. A scan goes down, so keys that are added
        meanwhile are above it and cannot keep it from ending. A key keeps its rank and is returned once."""
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
        """A dict keeps the order of insertion, so keys without a rank are at its end."""
        ranks, order, place = self._ranks, self._order, self._place
        if len(ranks) > 2 * len(place) + SPARE:
            kept = [(r, k) for r, k in zip(ranks, order, strict=True) if place.get(k) == r]
            last = ranks[-1]
            ranks[:], order[:] = [r for r, _ in kept], [k for _, k in kept]
            if not kept or ranks[-1] != last:  # ranks are never reused
                ranks.append(last)
                order.append("")
        top = ranks[-1] if ranks else 0
        born = list(takewhile(lambda key: key not in place, reversed(self.values)))
        for rank, key in enumerate(reversed(born), start=top + 1):
            place[key] = rank
            ranks.append(rank)
            order.append(key)
