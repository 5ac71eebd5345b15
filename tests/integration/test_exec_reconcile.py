"""Recovery when the exchange and the store do not agree."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from holdfast.metrics import Metrics
from holdfast.orders.errors import ExchangeTimeout, NotReconciled
from holdfast.orders.exchange.faults import Faults
from holdfast.orders.exchange.port import Request
from holdfast.orders.execution.metrics import FAMILIES
from holdfast.orders.model.order import Side
from tests.integration.exec_support import SYMBOL, World
from tests.integration.exec_words import FILLING, HALVES, RESTING, states


def test_orders_that_we_do_not_know_are_reported_and_stop_trading(tmp_path: Path) -> None:
    world = World(tmp_path, faults=RESTING)
    ours = world.place("ours")
    stranger = Request("x-1", SYMBOL, Side.BUY, Decimal(1), Decimal(9), world.clock.now() + 9)
    world.simulated.place(stranger)
    report = world.restart().recover_from_restart()
    assert [(each["kind"], each["client_order_id"]) for each in report["differences"]] == [
        ("unknown_to_us", "x-1")
    ]
    assert report["frozen"]
    assert report["open_after"] == []
    assert "not in our store" in world.store.freeze_state().reason
    truth = {order.client_order_id: order.state.value for order in world.simulated.truth()}
    assert truth == {ours: "CANCELED", "x-1": "OPEN"}, "a stranger's order is not ours to cancel"


def test_an_order_that_the_exchange_has_forgotten_is_closed(tmp_path: Path) -> None:
    world = World(tmp_path, faults=RESTING)
    name = world.place("k")
    del world.simulated.book.resting[name]
    report = world.restart().recover_from_restart()
    assert [each["kind"] for each in report["differences"]] == ["gone"]
    assert states(world) == ["CANCELED"]


def test_an_order_that_is_open_there_and_ended_here_is_cancelled(tmp_path: Path) -> None:
    """An intent that was closed as never arrived appears after all: it is cancelled, its fills count."""
    world = World(tmp_path, faults=Faults(lost_requests=1.0))
    name = world.place("k", qty="4")
    world.simulated._faults = world.simulated.book._faults = HALVES
    world.step(10)
    assert states(world) == ["CANCELED"]
    order = world.store.get(name)
    assert order is not None
    ghost = Request(name, SYMBOL, Side.BUY, order.qty, order.price, world.clock.now() + 9)
    world.simulated.place(ghost)
    report = world.restart().recover_from_restart()
    assert {each["kind"] for each in report["differences"]} == {"filled", "open_there"}
    assert [each.state.value for each in world.simulated.truth()] == ["CANCELED"]
    assert world.differences() == []


def test_recovery_waits_for_the_exchange(tmp_path: Path) -> None:
    world = World(tmp_path, faults=RESTING)
    world.place("k")
    loop = world.restart()
    world.simulated._faults = Faults(outages=1.0)
    with pytest.raises(ExchangeTimeout):
        loop.recover_from_restart()
    with pytest.raises(NotReconciled):
        world.place("new")
    world.simulated._faults = RESTING
    assert loop.recover_from_restart()["open_orders_count"] == 1
    world.place("new")


def test_recovering_twice_changes_nothing(tmp_path: Path) -> None:
    world = World(tmp_path, faults=FILLING)
    for number in range(5):
        world.place(f"k{number}")
    assert len(world.restart().recover_from_restart()["differences"]) == 5
    before = world.store.orders()
    again = world.restart().recover_from_restart()
    assert (again["differences"], again["open_orders_count"]) == ([], 0)
    assert world.store.orders() == before


def test_fills_that_come_twice_and_out_of_order_count_once(tmp_path: Path) -> None:
    faults = Faults(
        partial_fills=1.0, resting=0.0, repeated_fills=0.8, reordered_fills=0.8, lost_fills=0.2
    )
    metrics = Metrics(FAMILIES)
    world = World(tmp_path, faults=faults, meter=metrics)
    for number in range(10):
        world.place(f"k{number}", qty="8")
        world.step(0.3)
    for _ in range(30):
        world.step()
    assert states(world) == ["FILLED"] * 10
    assert all(order.filled_qty == 8 for order in world.store.orders())
    assert world.differences() == []
    assert metrics.value("holdfast_execution_fill_messages_total", news="no") > 5
