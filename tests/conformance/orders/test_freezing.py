"""Promises of every order store: cancelling all, freezing, refusing, concurrent threads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from decimal import Decimal

import msgspec
import pytest

from holdfast.errors import HoldfastError
from holdfast.orders.errors import InvalidOrder, OrdersFrozen, UnknownOrder
from holdfast.orders.model.order import Order, OrderState
from holdfast.orders.model.store import OrderStore
from tests.conformance.orders.support import BUY, OrderBench, known, placed


def test_cancel_all_marks_open_orders_and_repeats_its_answer(store: OrderStore) -> None:
    first, second = placed(store, "1"), placed(store, "2", "ETHUSDT")
    done = placed(store, "3")
    store.update_fill(done.client_order_id, "2", "100")
    names = [first.client_order_id, second.client_order_id]
    assert store.cancel_all_open("freeze-1") == names
    assert {order.state for order in store.open_orders()} == {OrderState.CANCEL_PENDING}
    third = placed(store, "4")
    assert store.cancel_all_open("freeze-1") == names
    assert known(store, third).state is OrderState.PENDING
    # Another freeze is another key: orders that still wait for the exchange are returned again.
    assert store.cancel_all_open("freeze-2") == [*names, third.client_order_id]
    store.update_order_state(first.client_order_id, OrderState.CANCELED)
    assert store.cancel_all_open() == [second.client_order_id, third.client_order_id]


def test_cancel_all_without_open_orders_is_remembered(store: OrderStore) -> None:
    assert store.cancel_all_open("empty") == []
    placed(store)
    assert store.cancel_all_open("empty") == []


def test_nothing_is_placed_while_frozen(store: OrderStore) -> None:
    first = placed(store, "1")
    assert store.freeze("drawdown") == 1
    assert store.freeze("again") == 1
    with pytest.raises(OrdersFrozen):
        placed(store, "2")
    assert placed(store, "1") == first
    assert store.update_order_state(first.client_order_id, OrderState.OPEN)
    state = store.freeze_state()
    assert (state.epoch, state.frozen, state.reason) == (1, True, "drawdown")
    assert store.thaw() == 1
    assert store.thaw() == 1
    assert placed(store, "2").epoch == 1
    assert store.freeze() == 2


def test_an_order_that_was_decided_before_a_freeze_is_not_placed_after_it(
    store: OrderStore,
) -> None:
    epoch = store.freeze_state().epoch
    assert store.place_order("BTCUSDT", BUY, 1, 1, "1", epoch=epoch).epoch == epoch
    store.freeze()
    store.thaw()
    with pytest.raises(OrdersFrozen):
        store.place_order("BTCUSDT", BUY, 1, 1, "2", epoch=epoch)
    assert store.place_order("BTCUSDT", BUY, 1, 1, "2", epoch=epoch + 1).epoch == epoch + 1


BAD: list[Callable[[OrderStore, str], object]] = [
    lambda store, name: store.place_order("BTCUSDT", BUY, -1, 1),
    lambda store, name: store.place_order("BTCUSDT", BUY, 0, 1),
    lambda store, name: store.place_order("BTCUSDT", BUY, float("nan"), 1),
    lambda store, name: store.place_order("BTCUSDT", BUY, 1, float("inf")),
    lambda store, name: store.place_order("BTCUSDT", BUY, 1, Decimal("sNaN")),
    lambda store, name: store.place_order("BTCUSDT", BUY, 0.1 + 0.2, 1),
    lambda store, name: store.place_order("BTCUSDT", BUY, "1e-19", 1),
    lambda store, name: store.place_order("BTCUSDT", BUY, "1e18", 1),
    lambda store, name: store.place_order("BTC USDT", BUY, 1, 1),
    lambda store, name: store.place_order("", BUY, 1, 1),
    lambda store, name: store.place_order("BTCUSDT", "HOLD", 1, 1),  # type: ignore[arg-type]
    lambda store, name: store.place_order("BTCUSDT", BUY, 1, 1, ""),
    lambda store, name: store.place_order("BTCUSDT", BUY, 1, 1, "k" * 201),
    lambda store, name: store.place_order("BTCUSDT", BUY, 1, 1, "a\nb"),
    lambda store, name: store.update_fill(name, 0, 1),
    lambda store, name: store.update_fill(name, 1, float("nan")),
    lambda store, name: store.update_order_state(name, "GONE"),  # type: ignore[arg-type]
    lambda store, name: store.freeze("r" * 501),
]


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("bench", ["memory"], indirect=True)
def test_bad_input_is_refused(store: OrderStore, bad: Callable[[OrderStore, str], object]) -> None:
    order = placed(store)
    with pytest.raises(InvalidOrder):
        bad(store, order.client_order_id)
    assert store.orders() == [order]


def test_an_unknown_order_is_an_error(store: OrderStore) -> None:
    with pytest.raises(UnknownOrder):
        store.update_order_state("hf-unknown", OrderState.OPEN)
    with pytest.raises(UnknownOrder):
        store.update_fill("hf-unknown", 1, 1, "k")


def test_many_threads_with_few_keys_place_each_key_once(store: OrderStore) -> None:
    answers: list[Order] = []
    errors: list[HoldfastError] = []

    def work(number: int) -> None:
        for key in range(6):
            try:
                answers.append(placed(store, f"k{(key + number) % 6}"))
            except HoldfastError as error:
                errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(answers) == 36
    assert len(set(map(msgspec.json.encode, answers))) == len(store.orders()) == 6
    assert store.verify() == []


def test_an_order_placed_during_a_freeze_was_placed_before_it(store: OrderStore) -> None:
    """When `freeze` has returned, no placement that began before it is still in progress."""
    refused = threading.Barrier(5)
    began = threading.Barrier(5)

    def work(number: int) -> None:
        began.wait()
        for key in range(1000):
            try:
                placed(store, f"{number}-{key}")
            except OrdersFrozen:
                break
        refused.wait()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    began.wait()
    while not store.orders():
        pass
    store.freeze()
    before = store.orders()
    refused.wait()
    for thread in threads:
        thread.join()
    assert store.orders() == before


@pytest.mark.parametrize("reason", ["bad \udcff text", "bell\a", "nul \x00", "x" * 501, 7])
def test_a_reason_that_cannot_be_stored_is_refused(store: OrderStore, reason: str) -> None:
    with pytest.raises(InvalidOrder, match="the reason"):
        store.freeze(reason)
    assert not store.freeze_state().frozen


def test_a_refused_reason_does_not_affect_later_calls(lasting: OrderBench) -> None:
    store = lasting.open()
    with pytest.raises(InvalidOrder):
        store.freeze("bad \udcff text")
    after = placed(store, "after it")
    assert lasting.reopen().get(after.client_order_id) == after
