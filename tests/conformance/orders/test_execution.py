"""The execution loop on every order store: faults, a restart, three freezes; then both books agree."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal

import pytest

from holdfast.clock import VirtualClock
from holdfast.orders.exchange.faults import ROUGH
from holdfast.orders.exchange.simulated import SimulatedExchange
from holdfast.orders.execution.loop import ExecutionLoop
from holdfast.orders.execution.reconcile import ALARMING, Kind, compare
from holdfast.orders.execution.risk import RiskMonitor
from holdfast.orders.model.order import Intent, Side
from holdfast.orders.model.store import OrderStore
from tests.backends import LASTING_ORDERS
from tests.conformance.orders.support import OrderBench

ORDERS = 24


@pytest.fixture
def exchange(clock: VirtualClock) -> SimulatedExchange:
    return SimulatedExchange(clock, seed=3, faults=ROUGH)


def made(exchange: SimulatedExchange, store: OrderStore, clock: VirtualClock) -> ExecutionLoop:
    return ExecutionLoop(
        exchange=exchange, order_store=store, risk_monitor=RiskMonitor(), clock=clock
    )


def wish(number: int) -> Intent:
    side = Side.BUY if number % 2 else Side.SELL
    return Intent("BTCUSDT", side, Decimal("1.5"), Decimal(100), f"k{number}")


def test_store_and_exchange_agree_after_faults(
    bench: OrderBench,
    exchange: SimulatedExchange,
    clock: VirtualClock,
    request: pytest.FixtureRequest,
) -> None:
    store = bench.open()
    loop = made(exchange, store, clock)
    for number in range(ORDERS):
        if number == ORDERS // 2 and request.node.callspec.params["bench"] in LASTING_ORDERS:
            clock.pause(30)
            exchange.fills()
            store = bench.reopen()
            loop = made(exchange, store, clock)
            found = loop.recover_from_restart()["differences"]
            assert not {Kind(each["kind"]) for each in found} & ALARMING
        loop.step([exchange.quote("BTCUSDT")])
        loop.place(wish(number))
        loop.place(wish(max(0, number - 3)))
        if number % 8 == 7:
            loop.freeze("every now and then")
            assert store.open_orders() == []
            loop.thaw()
        clock.pause(0.3)
    assert loop.stats().orders_placed == ORDERS
    assert loop.stats().freeze_events == 3
    assert set(Counter(exchange.book.acted).values()) == {1}
    assert compare(store.orders(), exchange.truth()) == []
    assert store.verify() == []
