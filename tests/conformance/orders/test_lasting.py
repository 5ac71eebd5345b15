"""Promises of every order store: durability, and the import of a plain file."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from holdfast.errors import Conflict, IdempotencyConflict, InvalidInput
from holdfast.orders.errors import OrdersFrozen
from holdfast.orders.model.order import OrderState
from tests.conformance.orders.support import BUY, OrderBench, known, placed


def test_every_answered_call_survives_a_restart(lasting: OrderBench) -> None:
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
    # Forgotten, so it is judged again: no change, since the order is in that state already.
    assert store.update_order_state(order.client_order_id, OrderState.OPEN, "open") is False
    assert placed(store, "1") == order
    assert store.verify() == []


PLAIN = """\
{"client_order_id":"a-1","symbol":"BTCUSDT","side":"BUY","qty":0.1,"price":50000.5,"state":"OPEN"}
{"client_order_id":"a-2","symbol":"ETHUSDT","side":"sell","qty":2,"price":"3000","state":"FILLED",\
"filled_qty":2.0,"avg_fill_price":3001.25,"created_at":1700000000.5}

{"client_order_id":"a-3","symbol":"BTCUSDT","side":"BUY","qty":1,"price":1,"state":"CANCELED","filled_qty":0.0}
"""


def test_a_plain_snapshot_is_imported_once(bench: OrderBench, tmp_path: Path) -> None:
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
    ("line", "message"),
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
def test_a_bad_line_is_reported_with_its_number_and_nothing_is_imported(
    bench: OrderBench, tmp_path: Path, line: str, message: str
) -> None:
    store = bench.open()
    path = tmp_path / "orders.jsonl"
    lines = PLAIN.splitlines()
    path.write_text("\n".join([*lines[:3], line, *lines[3:]]))
    with pytest.raises(InvalidInput, match="line 4") as caught:
        store.import_orders_jsonl(path)
    assert message in str(caught.value)
    assert store.orders() == []


def test_an_import_does_not_overwrite_a_different_order(bench: OrderBench, tmp_path: Path) -> None:
    store = bench.open()
    path = tmp_path / "orders.jsonl"
    path.write_text(PLAIN)
    store.import_orders_jsonl(path)
    path.write_text(PLAIN.replace("50000.5", "50001").replace("a-3", "a-4"))
    with pytest.raises(Conflict):
        store.import_orders_jsonl(path)
    assert store.get("a-4") is None
