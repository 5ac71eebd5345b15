"""What every order store can do, in plain calls and in awaited ones.

Promises, for every durable store: what a call answered survives a crash; a call with the same `idem_key`
(within one operation) acts once and is answered again; the same key with another request is an
IdempotencyConflict. A refusal (a typed error) is not remembered: the call may be tried again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from holdfast.orders.money import Money
from holdfast.orders.order import FreezeState, Order, OrderState, Side


class OrderStore(Protocol):
    """Blocking calls, safe from any thread."""

    def now(self) -> float:
        """The store's time, in which it dates orders."""
        ...

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
        """Writes the intent (PENDING). OrdersFrozen while frozen, or when `epoch` is not the current
        one. With an `idem_key`, the `client_order_id` follows from it."""
        ...

    def update_order_state(
        self,
        client_order_id: str,
        new_state: OrderState,
        idem_key: str | None = None,
        *,
        expected_version: int | None = None,
    ) -> bool:
        """True when it moved, False when it was there already. Fills are told by `update_fill`: FILLED
        is refused here while something is unfilled."""
        ...

    def update_fill(
        self,
        client_order_id: str,
        filled_qty: Money,
        avg_fill_price: Money,
        idem_key: str | None = None,
        *,
        expected_version: int | None = None,
    ) -> bool:
        """All that was filled so far. False when that is not more than is known (a late report)."""
        ...

    def cancel_all_open(self, idem_key: str | None = None) -> list[str]:
        """Marks everything open CANCEL_PENDING; the ids that are now to be cancelled at the exchange,
        oldest first, those that were waiting for it already among them."""
        ...

    def import_orders_jsonl(self, path: Path) -> int:
        """Takes over the orders of a plain `orders.jsonl`: all or none; how many were new."""
        ...

    def freeze(self, reason: str = "") -> int:
        """Lets nothing be placed until `thaw`; the new epoch (or the current one when frozen already)."""
        ...

    def thaw(self) -> int: ...

    def freeze_state(self) -> FreezeState: ...

    def get(self, client_order_id: str) -> Order | None: ...

    def orders(self) -> list[Order]:
        """All of them, in the order in which they were placed."""
        ...

    def open_orders(self, symbol: str | None = None) -> list[Order]: ...

    def by_symbol(self, symbol: str) -> list[Order]: ...

    def save_snapshot(self) -> None: ...

    def recover_from_snapshot(self) -> int:
        """Reads back what is durable; how many orders there are."""
        ...

    def verify(self) -> list[str]:
        """What is wrong with the store's indexes and views, in words; empty when nothing is."""
        ...

    def close(self) -> None: ...


class AsyncOrderStore(Protocol):
    """The same calls, awaited: one event loop, many callers, one sync of the disk for all of them."""

    async def place_order(
        self,
        symbol: str,
        side: Side,
        qty: Money,
        price: Money,
        idem_key: str | None = None,
        *,
        epoch: int | None = None,
    ) -> Order: ...

    async def update_order_state(
        self,
        client_order_id: str,
        new_state: OrderState,
        idem_key: str | None = None,
        *,
        expected_version: int | None = None,
    ) -> bool: ...

    async def update_fill(
        self,
        client_order_id: str,
        filled_qty: Money,
        avg_fill_price: Money,
        idem_key: str | None = None,
        *,
        expected_version: int | None = None,
    ) -> bool: ...

    async def cancel_all_open(self, idem_key: str | None = None) -> list[str]: ...

    async def freeze(self, reason: str = "") -> int: ...

    async def thaw(self) -> int: ...

    async def freeze_state(self) -> FreezeState: ...

    async def get(self, client_order_id: str) -> Order | None: ...

    async def orders(self) -> list[Order]: ...

    async def open_orders(self, symbol: str | None = None) -> list[Order]: ...

    async def by_symbol(self, symbol: str) -> list[Order]: ...
