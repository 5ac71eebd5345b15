"""An interrupt at every point of a call where Python may deliver one loses nothing acknowledged."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from holdfast.errors import HoldfastError
from holdfast.orders.errors import OrdersFrozen, StoreFailed
from holdfast.orders.logstore.durable import DurableOrderStore
from holdfast.orders.model.order import Order, OrderState, Side
from holdfast.primitives.kv import RedisKV
from holdfast.sim.orders.interrupt import Interrupt
from tests.unit.orders.state_support import QuickDisk

HANG_SECONDS = 60.0
"""Only a call that never ends reaches it."""


def opened(folder: Path) -> DurableOrderStore:
    return DurableOrderStore(
        RedisKV(), folder, lambda: 1_800_000_000.0, disk=QuickDisk(), snapshot_log_bytes=10**9
    )


def place(store: DurableOrderStore, key: str) -> Order:
    return store.place_order("BTCUSDT", Side.BUY, 2, 100, key)


def fill(store: DurableOrderStore) -> None:
    store.update_fill(place(store, "first").client_order_id, 1, 100, "fill")


def show(shown: list[Order], store: DurableOrderStore) -> None:
    shown.extend(store.orders())


def move(store: DurableOrderStore) -> None:
    store.update_order_state(place(store, "first").client_order_id, OrderState.OPEN)


CALLS: dict[str, Callable[[DurableOrderStore], object]] = {
    "place": lambda store: place(store, "interrupted"),
    "fill": fill,
    "move": move,
    "cancel-all": lambda store: store.cancel_all_open("all"),
    "freeze": lambda store: store.freeze("stop"),
    "save": lambda store: store.save_snapshot(),
}


def answered(store: DurableOrderStore, call: Callable[[DurableOrderStore], object]) -> bool:
    """Whether the call was answered; runs on a thread, so that a hang is noticed."""
    heard: list[bool] = []

    def asked() -> None:
        try:
            call(store)
            heard.append(True)
        except (StoreFailed, OrdersFrozen):
            heard.append(False)

    thread = threading.Thread(target=asked, daemon=True)
    thread.start()
    thread.join(HANG_SECONDS)
    assert heard, "the call never ended"
    return heard[0]


@pytest.mark.parametrize("name", CALLS)
def test_an_interrupt_at_any_point_leaves_what_was_answered(name: str, tmp_path: Path) -> None:
    at = 0
    while True:
        at += 1
        folder = tmp_path / f"{at}"
        store = opened(folder)
        known = [place(store, "first"), place(store, "second")]
        interrupt = Interrupt(at)
        with suppress(KeyboardInterrupt), interrupt.armed():
            CALLS[name](store)
        after = [key for key in ("third", "fourth") if answered(store, partial(place, key=key))]
        shown: list[Order] = []
        answered(store, partial(show, shown))
        store.close()
        with opened(folder) as again:
            found = {order.client_order_id: order for order in again.orders()}
            keys = {order.idem_key for order in found.values()}
            assert {"first", "second", *after} <= keys
            assert keys <= {"first", "second", "third", "fourth", "interrupted"}
            for order in (*known, *shown):
                assert found[order.client_order_id].version >= order.version
            assert again.verify() == []
        if not interrupt.is_done:
            break
    assert at > 20


def test_a_batch_without_its_number_is_refused(tmp_path: Path) -> None:
    store = opened(tmp_path)
    place(store, "first")
    with pytest.raises(HoldfastError, match="not the next"):
        store._journal.append(3, [b"anything\n"])
    store.close()
    with opened(tmp_path) as again:
        assert len(again.orders()) == 1
