"""Wrong calls of the order stores: the same typed error on every store, and nothing is written."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.orders.logstore.durable import DurableOrderStore
from holdfast.orders.model.memory import InMemoryOrderStore
from holdfast.orders.model.order import OrderState, Side
from holdfast.orders.model.store import AsyncOrderStore, OrderStore
from holdfast.orders.sqlstore.blocking import SqlOrderStore
from holdfast.primitives.kv import RedisKV
from tests.bad_input import Surface
from tests.integration.test_bad_input import check_same, codes_of

KINDS = {
    **dict.fromkeys(("client_order_id",), "known id"),
    **dict.fromkeys(("get.client_order_id", "symbol"), "name"),
    **dict.fromkeys(("idem_key", "open_orders.symbol"), "name?"),
    **dict.fromkeys(("qty", "price", "filled_qty", "avg_fill_price"), "money"),
    **dict.fromkeys(("epoch", "expected_version"), "whole?"),
    "side": "side",
    "new_state": "order state",
    "reason": "text",
    "path": "path",
}
GOOD = {
    "client_order_id": "mine",
    "symbol": "BTC",
    "side": Side.BUY,
    "qty": 1,
    "price": 1,
    "new_state": OrderState.OPEN,
    "filled_qty": 1,
    "avg_fill_price": 1,
}
COMMANDS = frozenset({"run"})
"""It takes the results of other calls."""
STORES = Surface(OrderStore, kinds=KINDS, good=GOOD, leave_out=COMMANDS)
AWAITED = Surface(AsyncOrderStore, kinds=KINDS, good=GOOD, leave_out=COMMANDS)
MADE = SimpleNamespace(memory=InMemoryOrderStore, durable=DurableOrderStore, sql=SqlOrderStore)
CONSTRUCTORS = Surface(
    MADE,
    kinds={
        **dict.fromkeys(("clock", "timer", "meter", "disk", "redis_client"), "object"),
        "namespace": "text",
        "key_prefix": "text",
        "retain_seconds": "number",
        **dict.fromkeys(("retain_max", "snapshot_log_bytes", "events_max"), "whole"),
        **dict.fromkeys(("overwrite_view", "server_time"), "flag"),
        "snapshot_dir": "folder",
        "url": "url",
    },
    good={"redis_client": RedisKV(), "snapshot_dir": "/dev/null/state", "url": "sqlite://"},
)


@pytest.fixture
def stores(tmp_path: Path, pg_dsn: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """The same in every store: an order that was imported."""
    monkeypatch.chdir(tmp_path)
    line = tmp_path / "orders.jsonl"
    line.write_text(
        '{"client_order_id":"mine","symbol":"BTC","side":"BUY","qty":"2","price":"3",'
        '"state":"OPEN","created_at":1}\n'
    )
    found: list[Any] = [
        InMemoryOrderStore(),
        DurableOrderStore(RedisKV(), tmp_path / "state"),
        SqlOrderStore("sqlite://"),
        SqlOrderStore(f"sqlite:///{tmp_path}/orders.db"),
        SqlOrderStore(pg_dsn),
    ]
    for store in found:
        assert store.import_orders_jsonl(line) == 1
    yield found
    for store in found:
        store.close()


async def test_a_wrong_call_of_an_order_store_is_a_typed_error_and_writes_nothing(
    stores: list[Any],
) -> None:
    before = [(store.orders(), store.freeze_state()) for store in stores]
    check_same([await codes_of(STORES, store) for store in stores])
    assert [(store.orders(), store.freeze_state()) for store in stores] == before


async def test_a_wrong_awaited_call_of_an_order_store_is_the_same_error(stores: list[Any]) -> None:
    durable = stores[1]
    before = durable.orders(), durable.freeze_state()
    check_same([await codes_of(AWAITED, durable.aio)])
    assert (durable.orders(), durable.freeze_state()) == before


def test_a_wrong_option_of_an_order_store_is_a_typed_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = asyncio.run(codes_of(CONSTRUCTORS, MADE))
    assert [each for each in found if each[1] not in ("bad-config", "invalid-input")] == []
    assert list(tmp_path.iterdir()) == []
