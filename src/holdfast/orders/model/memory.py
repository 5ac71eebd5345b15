"""Orders in the memory of this process: the same rules and answers, without durability.

For tests, and for runs that need no state on disk.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from holdfast.clock import SystemClock
from holdfast.orders.model.book import MemoryBook
from holdfast.orders.model.commands import Command, Moment
from holdfast.orders.model.options import check_options
from holdfast.orders.model.store import BookOrderStore

T = TypeVar("T")


class InMemoryOrderStore(BookOrderStore):
    """See `store.OrderStore`. `namespace` separates the ids of stores that trade at one exchange."""

    def __init__(self, clock: Callable[[], float] | None = None, *, namespace: str = "") -> None:
        check_options(namespace)
        self._clock = clock or SystemClock().now
        self._namespace = namespace
        self._book = MemoryBook()
        self._count = 0
        self._lock = threading.Lock()

    def run(self, command: Command[T]) -> T:
        with self._lock:
            self._count += 1
            moment = Moment(self._clock(), self._namespace, "memory", self._count)
            verdict = command.judge(self._book, moment)
            if verdict.change is not None:
                self._book.apply(verdict.change)
            return verdict.answer

    def now(self) -> float:
        return self._clock()

    def look(self, at: Callable[[MemoryBook], T]) -> T:
        with self._lock:
            return at(self._book)

    def save_snapshot(self) -> None:
        """Does nothing: there is no disk."""

    def recover_from_snapshot(self) -> int:
        return len(self._book)

    def verify(self) -> list[str]:
        return []

    def close(self) -> None:
        """Does nothing."""
