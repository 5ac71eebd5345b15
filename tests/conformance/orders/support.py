"""The order stores under test: one suite over every backend, each of which can be closed and opened again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.clock import VirtualClock
from holdfast.orders.logstore.durable import DurableOrderStore
from holdfast.orders.model.memory import InMemoryOrderStore
from holdfast.orders.model.order import Order, Side
from holdfast.orders.model.store import OrderStore
from holdfast.orders.sqlstore.blocking import SqlOrderStore
from holdfast.primitives.kv import RedisKV
from tests.backends import url_of

BUY, SELL = Side.BUY, Side.SELL


class OrderBench:
    """Opens stores on the same data."""

    def __init__(self, clock: VirtualClock, make: Callable[[], OrderStore]) -> None:
        self.clock = clock
        self._make = make
        self._store: OrderStore | None = None

    def open(self) -> OrderStore:
        self._store = self._make()
        return self._store

    def reopen(self) -> OrderStore:
        """As after a restart: the state of the process is lost."""
        self.close()
        return self.open()

    def close(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None


def make_order_bench(
    name: str, request: pytest.FixtureRequest, clock: VirtualClock, folder: Path
) -> OrderBench:
    def durable(kv: Callable[[], RedisKV]) -> Callable[[], OrderStore]:
        return lambda: DurableOrderStore(kv(), folder / "state", clock.now)

    def sql(url: str) -> Callable[[], OrderStore]:
        return lambda: SqlOrderStore(url, clock, server_time=False)

    match name:
        case "memory":
            return OrderBench(clock, lambda: InMemoryOrderStore(clock.now))
        case "durable-memory":
            return OrderBench(clock, durable(RedisKV))
        case "durable-redis":
            url = request.getfixturevalue("redis_url")
            return OrderBench(clock, durable(lambda: RedisKV.connect(url)))
        case _:
            return OrderBench(clock, sql(url_of(name, request, folder)))


def placed(store: OrderStore, key: str | None = "k", symbol: str = "BTCUSDT") -> Order:
    return store.place_order(symbol, BUY, "2", "100.5", key)


def known(store: OrderStore, order: Order) -> Order:
    found = store.get(order.client_order_id)
    assert found is not None
    return found
