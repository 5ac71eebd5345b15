"""The calls that users make, blocking and awaited, over one way to carry out a command.

A store brings `run` (or `run_async`) and `look`; everything else is the same for all of them and stands
here once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from holdfast.orders import requests
from holdfast.orders.book import MemoryBook
from holdfast.orders.commands import Command, Thaw
from holdfast.orders.importing import read_orders_jsonl
from holdfast.orders.money import Money
from holdfast.orders.options import check_path
from holdfast.orders.order import FreezeState, Order, OrderState, Side
from holdfast.orders.rules import check_reference, check_symbol

T = TypeVar("T")


class BlockingFront(ABC):
    """The verbs of `store.OrderStore`."""

    @abstractmethod
    def run(self, command: Command[T]) -> T:
        """Carries out a command; durable when this returns."""

    @abstractmethod
    def now(self) -> float:
        """The store's time."""

    def place_order(
        self,
        symbol: str,
        side: Side,
        qty: Money,
        price: Money,
        idem_key: str | None = None,
        *,
        epoch: int | None = None,
    ) -> Order:
        return self.run(requests.place(symbol, side, qty, price, idem_key=idem_key, epoch=epoch))

    def update_order_state(
        self,
        client_order_id: str,
        new_state: OrderState,
        idem_key: str | None = None,
        *,
        expected_version: int | None = None,
    ) -> bool:
        return self.run(
            requests.move(
                client_order_id, new_state, idem_key=idem_key, expected_version=expected_version
            )
        )

    def update_fill(
        self,
        client_order_id: str,
        filled_qty: Money,
        avg_fill_price: Money,
        idem_key: str | None = None,
        *,
        expected_version: int | None = None,
    ) -> bool:
        return self.run(
            requests.fill(
                client_order_id,
                filled_qty,
                avg_fill_price,
                idem_key=idem_key,
                expected_version=expected_version,
            )
        )

    def cancel_all_open(self, idem_key: str | None = None) -> list[str]:
        return self.run(requests.cancel_all(idem_key))

    def import_orders_jsonl(self, path: Path) -> int:
        """Takes over the orders of a plain `orders.jsonl`: all or none; how many were new."""
        return self.run(read_orders_jsonl(check_path("path", path), self.now()))

    def freeze(self, reason: str = "") -> int:
        return self.run(requests.freeze(reason))

    def thaw(self) -> int:
        return self.run(Thaw())


class AsyncFront(ABC):
    """The verbs of `store.AsyncOrderStore`."""

    @abstractmethod
    async def run(self, command: Command[T]) -> T:
        """Carries out a command; durable when this returns."""

    async def place_order(
        self,
        symbol: str,
        side: Side,
        qty: Money,
        price: Money,
        idem_key: str | None = None,
        *,
        epoch: int | None = None,
    ) -> Order:
        return await self.run(
            requests.place(symbol, side, qty, price, idem_key=idem_key, epoch=epoch)
        )

    async def update_order_state(
        self,
        client_order_id: str,
        new_state: OrderState,
        idem_key: str | None = None,
        *,
        expected_version: int | None = None,
    ) -> bool:
        return await self.run(
            requests.move(
                client_order_id, new_state, idem_key=idem_key, expected_version=expected_version
            )
        )

    async def update_fill(
        self,
        client_order_id: str,
        filled_qty: Money,
        avg_fill_price: Money,
        idem_key: str | None = None,
        *,
        expected_version: int | None = None,
    ) -> bool:
        return await self.run(
            requests.fill(
                client_order_id,
                filled_qty,
                avg_fill_price,
                idem_key=idem_key,
                expected_version=expected_version,
            )
        )

    async def cancel_all_open(self, idem_key: str | None = None) -> list[str]:
        return await self.run(requests.cancel_all(idem_key))

    async def freeze(self, reason: str = "") -> int:
        return await self.run(requests.freeze(reason))

    async def thaw(self) -> int:
        return await self.run(Thaw())


class BookReads(ABC):
    """The reads of a store that has its book in memory."""

    @abstractmethod
    def look(self, at: Callable[[MemoryBook], T]) -> T:
        """What `at` finds in the book, once everything that it may have seen is durable."""

    def get(self, client_order_id: str) -> Order | None:
        name = check_reference(client_order_id)
        return self.look(lambda book: book.order(name))

    def orders(self) -> list[Order]:
        return self.look(MemoryBook.orders)

    def open_orders(self, symbol: str | None = None) -> list[Order]:
        if symbol is None:
            return self.look(MemoryBook.open)
        return [order for order in self.by_symbol(symbol) if order.is_open]

    def by_symbol(self, symbol: str) -> list[Order]:
        name = check_symbol(symbol)
        return self.look(lambda book: book.by_symbol(name))

    def freeze_state(self) -> FreezeState:
        return self.look(lambda book: book.freeze)
