"""All orders in memory, with the indexes over them.

Promises: only `apply` and `undo` write an index, so indexes and orders always agree. A list of orders is
one consistent state. Never: I/O. Not thread-safe.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from holdfast.orders.model.commands import Change
from holdfast.orders.model.order import Answered, FreezeState, Order

RETAIN_SECONDS: Final = 7 * 86_400.0
RETAIN_MAX: Final = 1_000_000


class Undo(msgspec.Struct, frozen=True, gc=False):
    """How to take a change back."""

    change: Change
    before: tuple[Order | None, ...]
    freeze: FreezeState


class Contents(msgspec.Struct, frozen=True, gc=False):
    """The whole contents of a book at one moment."""

    orders: list[Order]
    answered: list[Answered]
    freeze: FreezeState


class MemoryBook:
    """See `commands.Book`."""

    def __init__(
        self, *, retain_seconds: float = RETAIN_SECONDS, retain_max: int = RETAIN_MAX
    ) -> None:
        self.freeze = FreezeState()
        self._retain_seconds = retain_seconds
        self._retain_max = retain_max
        self._orders: dict[str, Order] = {}
        self._open: dict[str, None] = {}
        self._by_symbol: dict[str, dict[str, None]] = {}
        self._answered: dict[tuple[str, str], Answered] = {}
        self._oldest: deque[tuple[str, str]] = deque()

    def __len__(self) -> int:
        return len(self._orders)

    def order(self, client_order_id: str) -> Order | None:
        return self._orders.get(client_order_id)

    def answered(self, operation: str, key: str) -> Answered | None:
        return self._answered.get((operation, key))

    def orders(self) -> list[Order]:
        return list(self._orders.values())

    def open(self) -> list[Order]:
        """Oldest first: an order enters the open set once, when it is placed."""
        return [self._orders[name] for name in self._open]

    def by_symbol(self, symbol: str) -> list[Order]:
        return [self._orders[name] for name in self._by_symbol.get(symbol, ())]

    def symbols(self) -> list[str]:
        return list(self._by_symbol)

    def remembered(self) -> list[Answered]:
        return list(self._answered.values())

    def apply(self, change: Change) -> Undo:
        before = tuple([self._put(order) for order in change.orders])
        undo = Undo(change, before, self.freeze)
        if change.answered is not None:
            self._remember(change.answered)
        if change.freeze is not None:
            self.freeze = change.freeze
        return undo

    def undo(self, undos: Sequence[Undo]) -> None:
        """Takes back the latest changes, given in the order in which they were made."""
        for undo in reversed(undos):
            self.freeze = undo.freeze
            done = undo.change.answered
            if (
                done is not None
                and self._answered.pop((done.operation, done.key), None) is not None
            ):
                self._oldest.remove((done.operation, done.key))
            for after, before in zip(undo.change.orders, undo.before, strict=True):
                if before is None:
                    self._drop(after)
                else:
                    self._put(before)
        self._open = {name: None for name, order in self._orders.items() if order.is_open}

    def contents(self, without: Sequence[Undo] = ()) -> Contents:
        """The whole contents at one moment, without the latest changes in `undos`."""
        orders = dict(self._orders)
        answered = dict(self._answered)
        freeze = self.freeze
        for undo in reversed(without):
            freeze = undo.freeze
            if undo.change.answered is not None:
                answered.pop((undo.change.answered.operation, undo.change.answered.key), None)
            for after, before in zip(undo.change.orders, undo.before, strict=True):
                if before is None:
                    del orders[after.client_order_id]
                else:
                    orders[after.client_order_id] = before
        return Contents(list(orders.values()), list(answered.values()), freeze)

    def load(self, orders: Iterable[Order], answered: Iterable[Answered]) -> None:
        for order in orders:
            self._put(order)
        for done in answered:
            self._remember(done)

    def forget(self, now: float) -> list[Answered]:
        """Drops answers older than the retention and returns them. Orders stay."""
        gone = []
        while self._oldest:
            first = self._oldest[0]
            is_old = self._answered[first].at < now - self._retain_seconds
            if not is_old and len(self._oldest) <= self._retain_max:
                break
            gone.append(self._answered.pop(self._oldest.popleft()))
        return gone

    def _put(self, order: Order) -> Order | None:
        name = order.client_order_id
        before = self._orders.get(name)
        self._orders[name] = order
        if before is None:
            self._by_symbol.setdefault(order.symbol, {})[name] = None
        if order.is_open:
            self._open[name] = None
        elif before is None or before.is_open:
            self._open.pop(name, None)
        return before

    def _drop(self, order: Order) -> None:
        name = order.client_order_id
        del self._orders[name]
        self._open.pop(name, None)
        names = self._by_symbol[order.symbol]
        del names[name]
        if not names:
            del self._by_symbol[order.symbol]

    def _remember(self, done: Answered) -> None:
        key = (done.operation, done.key)
        if key not in self._answered:
            self._oldest.append(key)
        self._answered[key] = done
