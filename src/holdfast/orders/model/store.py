"""The calls of every order store, blocking and async.

A store implements `run`, which executes a command, and its reads. All other calls are shared and are
defined here.

Promises, for every durable store: what a call returned survives a crash. A call with the same `idem_key`
(within one operation) takes effect once and gets the same answer again. The same key with another request
raises IdempotencyConflict. A refusal (a typed error) is not remembered: the call may be repeated.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from holdfast.orders.model import requests
from holdfast.orders.model.book import MemoryBook
from holdfast.orders.model.commands import Command, Thaw
from holdfast.orders.model.importing import read_orders_jsonl
from holdfast.orders.model.money import Money
from holdfast.orders.model.options import check_path
from holdfast.orders.model.order import FreezeState, Order, OrderState, Side
from holdfast.orders.model.rules import check_reference, check_symbol

T = TypeVar("T")


class OrderStore(ABC):
    """Blocking calls, safe from any thread."""

    @abstractmethod
    def run(self, command: Command[T]) -> T:
        """Executes a command; durable when this returns."""

    @abstractmethod
    def now(self) -> float:
        """The store's clock, which dates orders."""

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
        """Writes the intent (PENDING). Raises OrdersFrozen while frozen, or when `epoch` is not the
        current one. With an `idem_key`, the `client_order_id` is derived from it."""
        return self.run(requests.place(symbol, side, qty, price, idem_key=idem_key, epoch=epoch))

    def update_order_state(
        self,
        client_order_id: str,
        new_state: OrderState,
        idem_key: str | None = None,
        *,
        expected_version: int | None = None,
    ) -> bool:
        """True when the state changed, False when the order was in it already. Report fills with
        `update_fill`: FILLED is refused here while a quantity is unfilled."""
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
        """Records the total filled quantity. False when it is not larger than the recorded one (a late
        report)."""
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
        """Marks every open order CANCEL_PENDING. Returns the ids to cancel at the exchange, oldest first,
        including those that were CANCEL_PENDING already."""
        return self.run(requests.cancel_all(idem_key))

    def import_orders_jsonl(self, path: Path) -> int:
        """Imports the orders of a plain `orders.jsonl`, all or none. Returns how many were new."""
        return self.run(read_orders_jsonl(check_path("path", path), self.now()))

    def freeze(self, reason: str = "") -> int:
        """Refuses new orders until `thaw`. Returns the new epoch (or the current one when frozen
        already)."""
        return self.run(requests.freeze(reason))

    def thaw(self) -> int:
        return self.run(Thaw())

    @abstractmethod
    def freeze_state(self) -> FreezeState: ...

    @abstractmethod
    def get(self, client_order_id: str) -> Order | None: ...

    @abstractmethod
    def orders(self) -> list[Order]:
        """All orders, in the order in which they were placed."""

    @abstractmethod
    def open_orders(self, symbol: str | None = None) -> list[Order]: ...

    @abstractmethod
    def by_symbol(self, symbol: str) -> list[Order]: ...

    @abstractmethod
    def save_snapshot(self) -> None: ...

    @abstractmethod
    def recover_from_snapshot(self) -> int:
        """Loads the durable state again. Returns the number of orders."""

    @abstractmethod
    def verify(self) -> list[str]:
        """Errors in the store's indexes and views, as text; empty when there are none."""

    @abstractmethod
    def close(self) -> None: ...


class BookOrderStore(OrderStore):
    """An order store that reads from its book in memory."""

    @abstractmethod
    def look(self, at: Callable[[MemoryBook], T]) -> T:
        """Reads the book with `at`. Returns when everything that `at` may have read is durable."""

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


class AsyncOrderStore(ABC):
    """The same calls for an event loop: concurrent callers share one sync of the disk."""

    @abstractmethod
    async def run(self, command: Command[T]) -> T:
        """Executes a command; durable when this returns."""

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

    @abstractmethod
    async def freeze_state(self) -> FreezeState: ...

    @abstractmethod
    async def get(self, client_order_id: str) -> Order | None: ...

    @abstractmethod
    async def orders(self) -> list[Order]: ...

    @abstractmethod
    async def open_orders(self, symbol: str | None = None) -> list[Order]: ...

    @abstractmethod
    async def by_symbol(self, symbol: str) -> list[Order]: ...
