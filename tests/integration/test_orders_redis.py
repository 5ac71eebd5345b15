"""Redis goes away, hangs and comes back empty while orders are placed: nothing is lost, nothing is twice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.errors import StoreUnavailable
from holdfast.orders import store_metrics as measured
from holdfast.orders.durable import DurableOrderStore
from holdfast.orders.order import OrderState, Side
from holdfast.primitives.kv import RedisKV
from holdfast.primitives.metrics import Metrics
from tests.servers import Redis


class Time:
    """Seconds that pass when told to."""

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
def test_orders_go_on_while_redis_is_gone_and_it_catches_up(
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


def test_a_store_that_crashed_while_redis_was_gone_catches_up_when_it_opens(
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


def test_a_store_does_not_open_without_its_redis_and_leaves_the_directory_free(
    server: Redis, tmp_path: Path, time: Time, metrics: Metrics
) -> None:
    store = opened(server, tmp_path, time, metrics)
    place(store, "1")
    store.close()
    server.kill()
    with pytest.raises(StoreUnavailable):
        opened(server, tmp_path, time, metrics)
    server.start()
    store = opened(server, tmp_path, time, metrics)
    assert [order.idem_key for order in store.orders()] == ["1"]
    assert store.verify() == []
    store.close()
