"""What every order store promises, over every backend."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path

import msgspec
import pytest

from holdfast.clock import VirtualClock
from holdfast.errors import (
    Conflict,
    HoldfastError,
    IdempotencyConflict,
    IllegalTransition,
    InvalidInput,
    InvalidOrder,
    OrdersFrozen,
    OverFill,
    UnknownOrder,
    VersionConflict,
)
from holdfast.orders.order import Order, OrderState, Side
from holdfast.orders.store import OrderStore
from tests.conformance.orders_support import BACKENDS, LASTING, OrderBench, make_order_bench

BUY, SELL = Side.BUY, Side.SELL


@pytest.fixture(params=BACKENDS)
def bench(
    request: pytest.FixtureRequest, clock: VirtualClock, tmp_path: Path
) -> Iterator[OrderBench]:
    made = make_order_bench(request.param, request, clock, tmp_path)
    yield made
    made.close()


@pytest.fixture(params=LASTING)
def lasting(
    request: pytest.FixtureRequest, clock: VirtualClock, tmp_path: Path
) -> Iterator[OrderBench]:
    made = make_order_bench(request.param, request, clock, tmp_path)
    yield made
    made.close()


@pytest.fixture
def store(bench: OrderBench) -> OrderStore:
    return bench.open()


def placed(store: OrderStore, key: str | None = "k", symbol: str = "BTCUSDT") -> Order:
    return store.place_order(symbol, BUY, "2", "100.5", key)


def known(store: OrderStore, order: Order) -> Order:
    found = store.get(order.client_order_id)
    assert found is not None
    return found


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
    assert store.get("hf-nobody") is None
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
    # What was answered is answered again, though by now it would be a change, or none.
    assert store.update_order_state(name, OrderState.OPEN, "a") is True
    assert store.update_order_state(name, OrderState.OPEN, "b") is False
    assert known(store, order).state is OrderState.CANCEL_PENDING
    assert known(store, order).version == 3


def test_what_was_filled_never_falls(store: OrderStore, bench: OrderBench) -> None:
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


def test_a_fill_while_a_cancel_is_under_way_keeps_the_cancel(store: OrderStore) -> None:
    order = placed(store)
    name = order.client_order_id
    store.update_order_state(name, OrderState.OPEN)
    store.cancel_all_open()
    assert store.update_fill(name, "1", "100")
    assert known(store, order).state is OrderState.CANCEL_PENDING
    store.update_order_state(name, OrderState.CANCELED)
    # It is money even when it is heard of late; the state is final.
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


def test_cancel_all_marks_what_is_open_and_answers_the_same_again(store: OrderStore) -> None:
    first, second = placed(store, "1"), placed(store, "2", "ETHUSDT")
    done = placed(store, "3")
    store.update_fill(done.client_order_id, "2", "100")
    names = [first.client_order_id, second.client_order_id]
    assert store.cancel_all_open("freeze-1") == names
    assert {order.state for order in store.open_orders()} == {OrderState.CANCEL_PENDING}
    third = placed(store, "4")
    assert store.cancel_all_open("freeze-1") == names
    assert known(store, third).state is OrderState.PENDING
    # Another freeze is another key: what still waits for the exchange is named again.
    assert store.cancel_all_open("freeze-2") == [*names, third.client_order_id]
    store.update_order_state(first.client_order_id, OrderState.CANCELED)
    assert store.cancel_all_open() == [second.client_order_id, third.client_order_id]


def test_cancel_all_of_nothing_is_an_answer_too(store: OrderStore) -> None:
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


def test_an_unknown_order_is_told(store: OrderStore) -> None:
    with pytest.raises(UnknownOrder):
        store.update_order_state("hf-nobody", OrderState.OPEN)
    with pytest.raises(UnknownOrder):
        store.update_fill("hf-nobody", 1, 1, "k")


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


def test_what_is_placed_beside_a_freeze_was_placed_before_it(store: OrderStore) -> None:
    """When `freeze` has returned, no placement that began before it is still on its way."""
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


# -- what survives -----------------------------------------------------------------------------------


def test_everything_that_was_answered_is_there_after_a_restart(lasting: OrderBench) -> None:
    store = lasting.open()
    first, second = placed(store, "1"), placed(store, None, "ETHUSDT")
    store.update_order_state(first.client_order_id, OrderState.OPEN, "open")
    store.save_snapshot()
    store.update_fill(first.client_order_id, "1", "100", "fill")
    store.freeze("night")
    canceled = store.cancel_all_open("freeze-1")
    before = (store.orders(), store.open_orders(), store.by_symbol("ETHUSDT"), store.freeze_state())

    store = lasting.reopen()
    assert store.recover_from_snapshot() == 2
    assert before == (
        store.orders(),
        store.open_orders(),
        store.by_symbol("ETHUSDT"),
        store.freeze_state(),
    )
    assert placed(store, "1") == first
    assert store.update_order_state(first.client_order_id, OrderState.OPEN, "open") is True
    assert store.update_fill(first.client_order_id, "1", "100", "fill") is True
    assert store.cancel_all_open("freeze-1") == canceled
    with pytest.raises(IdempotencyConflict):
        store.place_order("BTCUSDT", BUY, "3", "100.5", "1")
    with pytest.raises(OrdersFrozen):
        placed(store, "3")
    assert store.orders() == before[0]
    assert known(store, second).state is OrderState.CANCEL_PENDING
    assert store.verify() == []


def test_unnamed_orders_have_new_names_after_a_restart(lasting: OrderBench) -> None:
    store = lasting.open()
    names = [placed(store, None).client_order_id for _ in range(3)]
    store = lasting.reopen()
    names += [placed(store, None).client_order_id for _ in range(3)]
    assert len(set(names)) == len(store.orders()) == 6


def test_old_answers_are_forgotten_and_orders_are_not(lasting: OrderBench) -> None:
    store = lasting.open()
    order = placed(store, "1")
    store.update_order_state(order.client_order_id, OrderState.OPEN, "open")
    lasting.clock.set(lasting.clock.now() + 8 * 86_400)
    store.save_snapshot()
    store = lasting.reopen()
    # Forgotten, so it is judged again: no change, since it is there already.
    assert store.update_order_state(order.client_order_id, OrderState.OPEN, "open") is False
    assert placed(store, "1") == order
    assert store.verify() == []


# -- taking over a plain file ---------------------------------------------------------------------------

PLAIN = """\
{"client_order_id":"a-1","symbol":"BTCUSDT","side":"BUY","qty":0.1,"price":50000.5,"state":"OPEN"}
{"client_order_id":"a-2","symbol":"ETHUSDT","side":"sell","qty":2,"price":"3000","state":"FILLED",\
"filled_qty":2.0,"avg_fill_price":3001.25,"created_at":1700000000.5}

{"client_order_id":"a-3","symbol":"BTCUSDT","side":"BUY","qty":1,"price":1,"state":"CANCELED","filled_qty":0.0}
"""


def test_a_plain_snapshot_is_taken_over_once(bench: OrderBench, tmp_path: Path) -> None:
    store = bench.open()
    path = tmp_path / "orders.jsonl"
    path.write_text(PLAIN)
    assert store.import_orders_jsonl(path) == 3
    assert store.import_orders_jsonl(path) == 0
    assert [order.client_order_id for order in store.open_orders()] == ["a-1"]
    filled = store.get("a-2")
    assert filled is not None
    assert (filled.qty, filled.avg_fill_price, filled.created_at) == (
        Decimal(2),
        Decimal("3001.25"),
        1700000000.5,
    )
    assert store.update_fill("a-1", "0.1", "50000")
    assert store.import_orders_jsonl(path) == 0
    assert store.open_orders() == []
    assert store.verify() == []


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("not json", "line 4"),
        ('{"client_order_id":"b","symbol":"X","side":"BUY","qty":1,"price":1}', "state is missing"),
        (PLAIN.splitlines()[0].replace("a-1", "b").replace("0.1,", "-0.1,"), "above zero"),
        (PLAIN.splitlines()[0].replace("a-1", "b").replace("OPEN", "FILLED"), "not filled"),
        (PLAIN.splitlines()[0].replace("a-1", "open"), "index"),
        (PLAIN.splitlines()[0].replace("a-1", "b").replace("0.1,", "NaN,"), "line 4"),
        (PLAIN.splitlines()[0], "twice"),
        (
            PLAIN.splitlines()[0].replace("a-1", "b").replace("0.1,", "0.30000000000000004,"),
            "float",
        ),
    ],
)
@pytest.mark.parametrize("bench", ["memory"], indirect=True)
def test_a_bad_line_is_told_with_its_number_and_nothing_is_taken(
    bench: OrderBench, tmp_path: Path, line: str, told: str
) -> None:
    store = bench.open()
    path = tmp_path / "orders.jsonl"
    lines = PLAIN.splitlines()
    path.write_text("\n".join([*lines[:3], line, *lines[3:]]))
    with pytest.raises(InvalidInput, match="line 4") as caught:
        store.import_orders_jsonl(path)
    assert told in str(caught.value)
    assert store.orders() == []


def test_an_order_that_is_here_and_differs_is_not_overwritten(
    bench: OrderBench, tmp_path: Path
) -> None:
    store = bench.open()
    path = tmp_path / "orders.jsonl"
    path.write_text(PLAIN)
    store.import_orders_jsonl(path)
    path.write_text(PLAIN.replace("50000.5", "50001").replace("a-3", "a-4"))
    with pytest.raises(Conflict):
        store.import_orders_jsonl(path)
    assert store.get("a-4") is None
