"""The order store as specified: idempotent calls, snapshots, keys in Redis, log lines."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from decimal import Decimal
from pathlib import Path

import pytest

from holdfast.clock import VirtualClock
from holdfast.errors import BadConfig, NotRunning
from holdfast.metrics import Metrics
from holdfast.orders import metrics as measured
from holdfast.orders.errors import StateBehind
from holdfast.orders.logstore.durable import DurableOrderStore
from holdfast.orders.model.order import Order, OrderState, Side, order_json
from holdfast.primitives.kv import RedisKV


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def kv() -> RedisKV:
    return RedisKV()


@pytest.fixture
def metrics() -> Metrics:
    return Metrics(measured.FAMILIES)


def make(kv: RedisKV, folder: Path, clock: VirtualClock, metrics: Metrics) -> DurableOrderStore:
    return DurableOrderStore(kv, folder / "state", clock.now, meter=metrics, timer=clock.monotonic)


@pytest.fixture
def store(kv: RedisKV, tmp_path: Path, clock: VirtualClock, metrics: Metrics) -> DurableOrderStore:
    return make(kv, tmp_path, clock, metrics)


def place(store: DurableOrderStore, key: str | None = "order-1") -> Order:
    return store.place_order("BTCUSDT", Side.BUY, qty=0.01, price=50000.0, idem_key=key)


def test_idempotent_place_order(
    store: DurableOrderStore, metrics: Metrics, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    assert place(store) == place(store) == place(store)
    assert len(store.orders()) == 1
    assert caplog.messages == ["[IDEM HIT] place_order key=order-1 → cached result"] * 2
    assert metrics.value(measured.IDEMPOTENCY, operation="place", outcome="miss") == 1
    assert metrics.value(measured.IDEMPOTENCY, operation="place", outcome="hit") == 2


def test_idempotent_update_order_state(store: DurableOrderStore, metrics: Metrics) -> None:
    name = place(store).client_order_id
    assert store.update_order_state(name, OrderState.OPEN, idem_key="open-1") is True
    assert store.update_order_state(name, OrderState.OPEN, idem_key="open-1") is True
    assert store.orders()[0].version == 2
    assert metrics.value(measured.IDEMPOTENCY, operation="state", outcome="hit") == 1


def test_idempotent_update_fill(
    store: DurableOrderStore, metrics: Metrics, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    name = place(store).client_order_id
    for _ in range(2):
        assert store.update_fill(name, 0.004, 49999.5, idem_key="fill-1") is True
    assert store.update_fill(name, 0.003, 49999.5, idem_key="fill-0") is False
    order = store.orders()[0]
    assert (order.filled_qty, order.version) == (Decimal("0.004"), 2)
    assert metrics.value(measured.LATE_FILLS) == 1
    assert any("late fill" in message for message in caplog.messages)


def test_idempotent_cancel_all_open(store: DurableOrderStore) -> None:
    names = [place(store, f"order-{n}").client_order_id for n in range(3)]
    assert store.cancel_all_open(idem_key="freeze_1") == names
    assert store.cancel_all_open(idem_key="freeze_1") == names
    assert [order.version for order in store.orders()] == [2, 2, 2]


def test_snapshot_save_and_recover(
    store: DurableOrderStore,
    tmp_path: Path,
    clock: VirtualClock,
    metrics: Metrics,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    orders = [place(store, f"order-{n}") for n in range(3)]
    store.save_snapshot()
    (saved,) = (tmp_path / "state").glob("snapshot-*.jsonl")
    assert caplog.messages == [f"[SNAPSHOT] Saved 3 orders to {saved}"]
    lines = [json.loads(line) for line in saved.read_text().splitlines()]
    assert [line["client_order_id"] for line in lines[1:4]] == [o.client_order_id for o in orders]
    assert saved.read_text().splitlines()[1] == order_json(orders[0])
    assert metrics.value(measured.SNAPSHOT_ORDER_COUNT) == 3
    assert metrics.value(measured.SNAPSHOT_SAVED_AT) == clock.now()
    assert metrics.value(measured.SNAPSHOT_BYTES) == saved.stat().st_size
    assert metrics.value(measured.LOG_BYTES) == 0
    clock.set(clock.now() + 60)
    place(store, "order-3")
    assert metrics.value(measured.SNAPSHOT_AGE) == 60
    assert metrics.value(measured.LOG_BYTES) > 0
    store.close()

    caplog.clear()
    store = make(RedisKV(), tmp_path, clock, metrics)
    assert store.recover_from_snapshot() == 4
    assert caplog.messages == ["[RECOVER] Loaded 4 orders from snapshot"]
    assert metrics.value(measured.RECOVERY_GAP) == 1
    assert place(store, "order-2") == orders[2]
    store.close()


def test_the_keys_in_redis_are_the_documented_ones(store: DurableOrderStore, kv: RedisKV) -> None:
    order = place(store)
    name = order.client_order_id
    assert kv.get(f"orders:{name}") == order_json(order)
    assert kv.smembers("orders:open") == kv.smembers("orders:by_symbol:BTCUSDT") == {name}
    assert kv.get("idem:place:order-1") == name
    store.update_order_state(name, OrderState.CANCELED, "gone")
    assert kv.smembers("orders:open") == set()
    assert json.loads(kv.get("idem:state:gone") or "")["changed"] is True
    assert store.verify() == []


def test_changed_indexes_are_found_and_rebuilt(store: DurableOrderStore, kv: RedisKV) -> None:
    name = place(store).client_order_id
    kv.srem("orders:open", name)
    kv.sadd("orders:by_symbol:ETHUSDT", "ghost")
    kv.set(f"orders:{name}", "{}")
    kv.delete("idem:place:order-1")
    assert store.verify() == [
        "idem:place:order-1 is missing",
        f"orders:{name} differs",
        "orders:open is missing",
    ]
    assert store.recover_from_snapshot() == 1
    assert store.verify() == []
    assert kv.smembers("orders:by_symbol:ETHUSDT") == {"ghost"}, "not ours to delete"


def test_a_redis_that_lost_its_data_is_filled_again_by_the_next_write(
    store: DurableOrderStore, kv: RedisKV, clock: VirtualClock, metrics: Metrics
) -> None:
    place(store)
    for key in kv.scan(0, "*", 100)[1]:
        kv.delete(key)
    place(store, "order-2")
    assert store.verify() == []
    kv.delete("orders:open")
    kv.set("orders:open", "not a set")
    place(store, "order-3")
    assert metrics.value(measured.VIEW_BEHIND) == 1
    assert "behind" in store.verify()[0]
    clock.set(clock.now() + 10)
    place(store, "order-4")
    assert metrics.value(measured.VIEW_BEHIND) == 0
    assert store.verify() == []
    assert len(kv.smembers("orders:open")) == 4


def test_an_older_directory_does_not_overwrite_a_newer_redis(
    kv: RedisKV, tmp_path: Path, clock: VirtualClock, metrics: Metrics
) -> None:
    store = make(kv, tmp_path, clock, metrics)
    place(store)
    store.close()
    old = (tmp_path / "state" / "log-0000000000000001.jsonl").read_bytes()
    store = make(kv, tmp_path, clock, metrics)
    place(store, "order-2")
    store.close()
    (tmp_path / "state" / "log-0000000000000001.jsonl").write_bytes(old)
    (tmp_path / "state" / "orders.mark").unlink()
    with pytest.raises(StateBehind, match="Redis has record 2"):
        make(kv, tmp_path, clock, metrics)
    assert len(kv.smembers("orders:open")) == 2
    store = DurableOrderStore(kv, tmp_path / "state", clock.now, overwrite_view=True)
    assert store.verify() == []
    assert len(kv.smembers("orders:open")) == 1
    store.close()


def test_the_redis_of_another_store_is_not_touched(
    kv: RedisKV, tmp_path: Path, clock: VirtualClock, metrics: Metrics
) -> None:
    make(kv, tmp_path / "one", clock, metrics).close()
    with pytest.raises(StateBehind, match="another state directory"):
        make(kv, tmp_path / "two", clock, metrics)
    other = DurableOrderStore(kv, tmp_path / "two", clock.now, key_prefix="desk-2:")
    place(other)
    assert kv.smembers("desk-2:orders:open")
    assert kv.smembers("orders:open") == set()
    other.close()
    foreign = RedisKV()
    foreign.set("orders:1", "{}")
    with pytest.raises(StateBehind, match="no Holdfast store wrote"):
        make(foreign, tmp_path / "three", clock, metrics)
    with pytest.raises(BadConfig):
        DurableOrderStore(RedisKV(), tmp_path / "four", key_prefix="a*")


async def test_callers_on_an_event_loop_share_syncs(
    store: DurableOrderStore, metrics: Metrics
) -> None:
    orders = await asyncio.gather(
        *(store.aio.place_order("BTCUSDT", Side.BUY, 1, 1, f"k{n % 50}") for n in range(100))
    )
    assert len({order.client_order_id for order in orders}) == len(store.orders()) == 50
    assert metrics.value(measured.RECORDS) == 50
    assert metrics.value(measured.BATCHES) <= 10
    assert metrics.value(measured.IDEMPOTENCY, operation="place", outcome="in_flight") > 0
    name = orders[0].client_order_id
    assert await store.aio.update_order_state(name, OrderState.OPEN)
    assert await store.aio.update_fill(name, 1, 1)
    assert (await store.aio.get(name)) == store.get(name)
    assert len(await store.aio.open_orders()) == len(await store.aio.open_orders("BTCUSDT")) == 49
    assert len(await store.aio.orders()) == len(await store.aio.by_symbol("BTCUSDT")) == 50
    assert await store.aio.freeze("x") == await store.aio.thaw() == 1
    assert (await store.aio.freeze_state()).frozen is False
    assert len(await store.aio.cancel_all_open("c")) == 49


async def test_a_cancelled_caller_can_repeat_its_call(
    store: DurableOrderStore,
) -> None:
    task = asyncio.create_task(store.aio.place_order("BTCUSDT", Side.BUY, 1, 1, "k"))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    first = await store.aio.place_order("BTCUSDT", Side.BUY, 1, 1, "k")
    assert store.orders() == [first]


def test_a_long_log_triggers_a_snapshot(kv: RedisKV, tmp_path: Path, clock: VirtualClock) -> None:
    store = DurableOrderStore(kv, tmp_path / "state", clock.now, snapshot_log_bytes=2000)
    for number in range(12):
        place(store, f"order-{number}")
        if store._snapshot_thread is not None:
            store._snapshot_thread.join()
    store.close()
    assert list((tmp_path / "state").glob("snapshot-*"))
    store = DurableOrderStore(RedisKV(), tmp_path / "state", clock.now)
    assert len(store.orders()) == 12
    store.close()


def test_a_closed_store_raises_not_running(store: DurableOrderStore) -> None:
    store.close()
    store.close()
    with pytest.raises(NotRunning):
        place(store)
    with pytest.raises(NotRunning):
        store.orders()


def test_a_store_belongs_to_the_process_that_opened_it(
    store: DurableOrderStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getpid", lambda: 1)
    with pytest.raises(NotRunning, match="process"):
        place(store)
