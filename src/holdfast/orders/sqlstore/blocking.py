"""The SQL order store for blocking callers and any thread: see `store.OrderStore`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from holdfast.clock import Clock, SystemClock
from holdfast.core.check import check_flag
from holdfast.metrics import Meter
from holdfast.orders.model.book import RETAIN_SECONDS
from holdfast.orders.model.commands import Command
from holdfast.orders.model.order import FreezeState, Order
from holdfast.orders.model.store import OrderStore
from holdfast.orders.sqlstore.store import SqlOrders
from holdfast.portal import Portal
from holdfast.store.backends import store_for
from holdfast.store.store import Store

T = TypeVar("T")


class Caller(Protocol):
    """Runs coroutines for blocking callers: see `holdfast.portal.Portal`."""

    def call(self, make: Callable[[], Awaitable[T]]) -> T: ...

    def close(self) -> None: ...


class BlockingSqlOrders(OrderStore):
    """Wraps a given store and caller; closing closes both."""

    def __init__(self, store: Store, orders: SqlOrders, portal: Caller) -> None:
        self._store = store
        self._orders = orders
        self._portal = portal

    def run(self, command: Command[T]) -> T:
        return self._portal.call(lambda: self._orders.run(command))

    def now(self) -> float:
        return self._store.now()

    def get(self, client_order_id: str) -> Order | None:
        return self._portal.call(lambda: self._orders.get(client_order_id))

    def orders(self) -> list[Order]:
        return self._portal.call(self._orders.orders)

    def open_orders(self, symbol: str | None = None) -> list[Order]:
        return self._portal.call(lambda: self._orders.open_orders(symbol))

    def by_symbol(self, symbol: str) -> list[Order]:
        return self._portal.call(lambda: self._orders.by_symbol(symbol))

    def freeze_state(self) -> FreezeState:
        return self._portal.call(self._orders.freeze_state)

    def save_snapshot(self) -> None:
        """Forgets old answers; the database itself is durable."""
        self._portal.call(self._orders.forget)

    def recover_from_snapshot(self) -> int:
        return len(self.orders())

    def verify(self) -> list[str]:
        return self._portal.call(self._orders.verify)

    def close(self) -> None:
        self._portal.call(self._store.close)
        self._portal.close()


class SqlOrderStore(BlockingSqlOrders):
    """`SqlOrderStore("sqlite:///orders.db")`, or a PostgreSQL URL. Opens the database at once.

    On an event loop, use `sqlstore.store.SqlOrders` with a store that you open."""

    def __init__(
        self,
        url: str,
        clock: Clock | None = None,
        *,
        namespace: str = "",
        retain_seconds: float = RETAIN_SECONDS,
        meter: Meter | None = None,
        server_time: bool = True,
    ) -> None:
        check_flag("server_time", server_time)
        store = store_for(url, clock or SystemClock(), server_time=server_time)()
        orders = SqlOrders(store, namespace=namespace, retain_seconds=retain_seconds, meter=meter)
        super().__init__(store, orders, Portal("sql-orders"))
        try:
            self._portal.call(store.open)
        except BaseException:
            self._portal.close()
            raise
