"""Redis disconnects, hangs and comes back empty while orders are placed: nothing is lost or done twice."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.metrics import Metrics
from holdfast.orders import metrics as measured
from holdfast.orders.errors import StateBehind
from holdfast.orders.logstore import view, view_keys
from holdfast.orders.logstore.durable import DurableOrderStore
from holdfast.orders.model.order import OrderState, Side
from holdfast.primitives.kv import RedisKV
from proof.lab.servers import Redis


class Time:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def server() -> Iterator[Redis]:
    with Redis() as started:
        yield started


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def metrics() -> Metrics:
    return Metrics(measured.FAMILIES)


def opened(server: Redis, folder: Path, time: Time, metrics: Metrics) -> DurableOrderStore:
    kv = RedisKV.connect(server.url, timeout_seconds=0.2)
    return DurableOrderStore(kv, folder / "state", meter=metrics, timer=time)


def place(store: DurableOrderStore, key: str) -> str:
    return store.place_order("BTCUSDT", Side.BUY, 1, 100, key).client_order_id


@pytest.mark.parametrize("fault", ["kill", "pause"])
def test_orders_continue_while_redis_is_down_and_the_view_catches_up(
    server: Redis, tmp_path: Path, time: Time, metrics: Metrics, fault: str
) -> None:
    store = opened(server, tmp_path, time, metrics)
    names = [place(store, "1")]
    server.kill() if fault == "kill" else server.pause()
    names += [place(store, "2"), place(store, "1")]
    assert names[0] == names[2]
    assert store.update_order_state(names[0], OrderState.OPEN, "open")
    assert metrics.value(measured.VIEW_BEHIND) == 1
    assert store.verify() != []
    assert [order.idem_key for order in store.orders()] == ["1", "2"]
    server.start() if fault == "kill" else server.resume()
    time.now += 3600
    names.append(place(store, "3"))
    assert store.verify() == []
    assert metrics.value(measured.VIEW_BEHIND) == 0
    kv = RedisKV.connect(server.url)
    assert kv.smembers("orders:open") == set(names)
    store.close()
    kv.close()


def test_a_store_that_crashed_while_redis_was_down_catches_up_when_it_opens(
    server: Redis, tmp_path: Path, time: Time, metrics: Metrics
) -> None:
    store = opened(server, tmp_path, time, metrics)
    place(store, "1")
    server.pause()
    place(store, "2")
    server.resume()
    store.close()
    store = opened(server, tmp_path, time, metrics)
    assert store.verify() == []
    assert len(store.orders()) == 2
    store.close()


def test_a_store_opens_without_its_redis_and_the_view_catches_up(
    server: Redis, tmp_path: Path, time: Time, metrics: Metrics
) -> None:
    store = opened(server, tmp_path, time, metrics)
    place(store, "1")
    store.close()
    server.kill()
    store = opened(server, tmp_path, time, metrics)
    assert metrics.value(measured.VIEW_BEHIND) == 1
    store.freeze("after a crash, without a view")
    assert len(store.cancel_all_open()) == 1
    store.thaw()
    place(store, "2")
    server.start()
    time.now += 3600
    place(store, "3")
    assert store.verify() == []
    assert metrics.value(measured.VIEW_BEHIND) == 0
    store.close()


def test_a_directory_found_to_be_older_than_its_redis_places_nothing_more(
    server: Redis, tmp_path: Path, time: Time, metrics: Metrics
) -> None:
    store = opened(server, tmp_path, time, metrics)
    first = place(store, "1")
    store.close()
    shutil.copytree(tmp_path / "state", tmp_path / "old" / "state")
    store = opened(server, tmp_path, time, metrics)
    place(store, "2")
    place(store, "3")
    store.close()
    server.pause()
    old = opened(server, tmp_path / "old", time, metrics)
    place(old, "4")
    server.resume()
    time.now += 3600
    old.update_order_state(first, OrderState.OPEN)
    with pytest.raises(StateBehind, match="has record 3 and the state directory ended at 1"):
        place(old, "5")
    assert place(old, "1") == first, "a retry is answered"
    old.freeze("stop")
    old.close()
    kv = RedisKV.connect(server.url)
    assert len(kv.smembers("orders:open")) == 3
    kv.close()


def test_a_rebuild_leaves_the_keys_of_others_alone(
    server: Redis, tmp_path: Path, time: Time, metrics: Metrics
) -> None:
    kv = RedisKV.connect(server.url)
    store = opened(server, tmp_path, time, metrics)
    name = place(store, "1")
    store.update_order_state(name, OrderState.OPEN, "mine")
    theirs = {"idem:payment:7": "paid", "idem:state:theirs": "x", "orders:report": "daily"}
    kv.mset(theirs)
    kv.delete("orders:meta")
    place(store, "2")
    assert store.verify() == []
    assert kv.mget(list(theirs)) == list(theirs.values())
    store.close()
    store = DurableOrderStore(kv, tmp_path / "state", overwrite_view=True, timer=time)
    assert kv.mget(list(theirs)) == list(theirs.values())
    store.close()


def test_a_large_view_is_rebuilt_in_chunks_while_orders_continue(
    server: Redis, tmp_path: Path, time: Time, metrics: Metrics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view_keys, "CHUNK", 2)
    monkeypatch.setattr(view, "BATCHES_MAX", 1)
    kv = RedisKV.connect(server.url)
    store = opened(server, tmp_path, time, metrics)
    names = [place(store, f"{number}") for number in range(9)]
    kv.delete(*kv.scan(0, "*", 1000)[1])
    before = kv.xlen("orders:events")
    assert before == 0
    batches = 0
    for name in reversed(names):
        store.update_order_state(name, OrderState.CANCELED, f"cancel {name}")
        batches += 1
        building = json.loads(kv.get("orders:meta") or "{}")["building"]
        assert (store.verify() == []) != building
        if not building:
            break
    assert 4 <= batches < 9
    rest = names[: len(names) - batches]
    assert kv.smembers("orders:open") == set(rest)
    for name in names[:2]:
        store.update_order_state(name, OrderState.CANCELED)
    assert store.verify() == []
    store.close()
    kv.close()


def test_records_are_read_from_the_stream_in_order_without_a_gap(
    server: Redis, tmp_path: Path, time: Time, metrics: Metrics
) -> None:
    kv = RedisKV.connect(server.url)
    store = opened(server, tmp_path, time, metrics)
    name = place(store, "1")
    store.update_order_state(name, OrderState.OPEN)
    store.freeze("stop")
    entries = kv.xread({"orders:events": "0"})["orders:events"]
    assert [entry.id for entry in entries] == ["1-0", "2-0", "3-0"]
    records = [record for entry in entries for record in json.loads(entry.fields["records"])]
    assert [record["seq"] for record in records] == [1, 2, 3]
    changes = [record["change"] for record in records]
    assert [change["orders"][0]["state"] for change in changes[:2]] == ["PENDING", "OPEN"]
    assert changes[2]["freeze"]["reason"] == "stop"
    server.kill()
    store.thaw()
    server.start()
    time.now += 3600
    place(store, "2")
    place(store, "3")
    entries = kv.xrange("orders:events")
    assert [(entry.id, entry.fields["kind"]) for entry in entries] == [
        ("5-0", "reset"),
        ("6-0", "records"),
    ], "record 4 is not in it, so a reader must read the orders"
    store.close()
    kv.close()
