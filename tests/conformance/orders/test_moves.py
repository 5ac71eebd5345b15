"""Promises of every order store: placing, moving and filling, once per key."""

from __future__ import annotations

from decimal import Decimal

import pytest

from holdfast.errors import IdempotencyConflict, IllegalTransition, VersionConflict
from holdfast.orders.errors import InvalidOrder, OverFill
from holdfast.orders.model.order import OrderState
from holdfast.orders.model.store import OrderStore
from tests.conformance.orders.support import BUY, SELL, OrderBench, known, placed


def test_a_placed_order_is_an_intent_that_can_be_found_everywhere(store: OrderStore) -> None:
    order = store.place_order("BTCUSDT", BUY, 1.50, Decimal("100.10"), "k")
    assert (order.state, order.version, order.qty, order.price) == (
        OrderState.PENDING,
        1,
        Decimal("1.5"),
        Decimal("100.1"),
    )
    assert str(order.qty) == "1.5"
    assert store.get(order.client_order_id) == order
    assert store.orders() == store.open_orders() == store.by_symbol("BTCUSDT") == [order]
    assert store.open_orders("ETHUSDT") == store.by_symbol("ETHUSDT") == []
    assert store.get("hf-unknown") is None
    assert store.verify() == []


def test_the_same_key_places_once_and_gets_the_first_answer(store: OrderStore) -> None:
    first = placed(store)
    store.update_fill(first.client_order_id, "1", "100")
    assert store.place_order("BTCUSDT", BUY, 2.0, "100.50", "k") == first
    assert len(store.orders()) == 1


def test_the_same_key_with_another_request_is_a_conflict(store: OrderStore) -> None:
    order = placed(store)
    for symbol, side, qty in (
        ("BTCUSDT", BUY, "2.1"),
        ("BTCUSDT", SELL, "2"),
        ("ETHUSDT", BUY, "2"),
    ):
        with pytest.raises(IdempotencyConflict):
            store.place_order(symbol, side, qty, "100.5", "k")
    store.update_order_state(order.client_order_id, OrderState.OPEN, "m")
    with pytest.raises(IdempotencyConflict):
        store.update_order_state(order.client_order_id, OrderState.CANCELED, "m")
    store.update_fill(order.client_order_id, "1", "100", "f")
    with pytest.raises(IdempotencyConflict):
        store.update_fill(order.client_order_id, "1", "101", "f")
    assert known(store, order).version == 3


def test_a_key_belongs_to_its_operation(store: OrderStore) -> None:
    order = placed(store, "same")
    assert store.update_order_state(order.client_order_id, OrderState.OPEN, "same")
    assert store.update_fill(order.client_order_id, "1", "100", "same")
    assert store.cancel_all_open("same") == [order.client_order_id]


def test_without_a_key_every_call_places(store: OrderStore) -> None:
    names = {placed(store, None).client_order_id for _ in range(5)}
    assert len(names) == len(store.orders()) == 5


def test_a_state_moves_once_for_a_key(store: OrderStore) -> None:
    order = placed(store)
    name = order.client_order_id
    assert store.update_order_state(name, OrderState.OPEN, "a") is True
    assert store.update_order_state(name, OrderState.OPEN, "b") is False
    store.update_order_state(name, OrderState.CANCEL_PENDING)
    # The answer is repeated, although by now it would be a change, or none.
    assert store.update_order_state(name, OrderState.OPEN, "a") is True
    assert store.update_order_state(name, OrderState.OPEN, "b") is False
    assert known(store, order).state is OrderState.CANCEL_PENDING
    assert known(store, order).version == 3


def test_the_filled_quantity_never_decreases(store: OrderStore, bench: OrderBench) -> None:
    order = placed(store)
    name = order.client_order_id
    assert store.update_fill(name, "1.5", "100")
    bench.clock.set(bench.clock.now() + 1)
    assert store.update_fill(name, "1", "99") is False
    assert store.update_fill(name, "1.5", "99") is False
    after = known(store, order)
    assert (after.filled_qty, after.avg_fill_price, after.state, after.version) == (
        Decimal("1.5"),
        Decimal(100),
        OrderState.PARTIALLY_FILLED,
        2,
    )
    assert store.update_fill(name, "2", "100.25")
    assert known(store, order).state is OrderState.FILLED
    assert store.open_orders() == []


def test_more_than_was_ordered_cannot_be_filled(store: OrderStore) -> None:
    order = placed(store)
    with pytest.raises(OverFill):
        store.update_fill(order.client_order_id, "2.000000001", "100")
    assert known(store, order) == order


def test_an_average_that_makes_earlier_fills_cheaper_than_nothing_is_refused(
    store: OrderStore,
) -> None:
    order = placed(store)
    store.update_fill(order.client_order_id, "1", "100")
    with pytest.raises(InvalidOrder):
        store.update_fill(order.client_order_id, "1.5", "60")
    assert store.update_fill(order.client_order_id, "1.5", "67")


def test_a_fill_during_a_cancel_keeps_the_cancel_pending(store: OrderStore) -> None:
    order = placed(store)
    name = order.client_order_id
    store.update_order_state(name, OrderState.OPEN)
    store.cancel_all_open()
    assert store.update_fill(name, "1", "100")
    assert known(store, order).state is OrderState.CANCEL_PENDING
    store.update_order_state(name, OrderState.CANCELED)
    # It is money even when it is reported late; the state is final.
    assert store.update_fill(name, "1.5", "100")
    assert (known(store, order).state, known(store, order).filled_qty) == (
        OrderState.CANCELED,
        Decimal("1.5"),
    )
    assert store.open_orders() == []


def test_illegal_moves_are_refused_and_change_nothing(store: OrderStore) -> None:
    order = placed(store)
    name = order.client_order_id
    for state in (OrderState.FILLED, OrderState.PARTIALLY_FILLED):
        with pytest.raises(IllegalTransition):
            store.update_order_state(name, state)
    store.update_order_state(name, OrderState.REJECTED)
    for state in set(OrderState) - {OrderState.REJECTED}:
        with pytest.raises(IllegalTransition):
            store.update_order_state(name, state, "x")
    with pytest.raises(IllegalTransition):
        store.update_fill(name, "1", "1")
    assert known(store, order).version == 2


def test_a_refusal_is_not_remembered(store: OrderStore) -> None:
    order = placed(store)
    name = order.client_order_id
    with pytest.raises(OverFill):
        store.update_fill(name, "3", "100", "f")
    assert store.update_fill(name, "2", "100", "f") is True


def test_an_expected_version_that_has_passed_is_refused(store: OrderStore) -> None:
    order = placed(store)
    name = order.client_order_id
    assert store.update_order_state(name, OrderState.OPEN, expected_version=1)
    with pytest.raises(VersionConflict):
        store.update_order_state(name, OrderState.CANCELED, expected_version=1)
    with pytest.raises(VersionConflict):
        store.update_fill(name, "1", "100", expected_version=1)
    assert store.update_fill(name, "1", "100", expected_version=2)
