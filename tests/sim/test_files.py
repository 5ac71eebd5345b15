"""The disk of a simulated trader: which data survives a power loss."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest

from holdfast.orders.logstore import disk as disks
from holdfast.orders.logstore.durable import DurableOrderStore
from holdfast.orders.model.order import Side
from holdfast.primitives.kv import RedisKV
from holdfast.sim.blocking_thread import Killed
from holdfast.sim.draw import Draw
from holdfast.sim.orders.files import Files
from holdfast.sim.trace import Trace


def files(folder: Path, seed: int = 1) -> Files:
    return Files(folder, Draw(seed, "files"), Trace(lambda: 0.0))


def opened(disk: Files) -> DurableOrderStore:
    return DurableOrderStore(RedisKV(lambda: 0.0), disk.folder, lambda: 0.0, disk=disk)


def lose_power(store: DurableOrderStore, disk: Files) -> None:
    store._journal.close()
    disk.lose_power()
    disk.revive()


def place_many(store: DurableOrderStore, acknowledged: list[str]) -> None:
    for number in range(40):
        order = store.place_order("BTCUSDT", Side.BUY, 1, 100, f"k{number}")
        acknowledged.append(order.client_order_id)
        if number % 5 == 4:
            store.save_snapshot()


@pytest.mark.parametrize("seed", range(20))
def test_acknowledged_orders_survive_a_power_loss_at_any_step(tmp_path: Path, seed: int) -> None:
    disk = files(tmp_path, seed)
    store = opened(disk)
    acknowledged: list[str] = []
    disk.dying = (10 + 3 * seed, "power")
    with pytest.raises(Killed):
        place_many(store, acknowledged)
    lose_power(store, disk)
    with opened(disk) as again:
        recovered = [order.client_order_id for order in again.orders()]
    assert recovered[: len(acknowledged)] == acknowledged
    assert len(recovered) <= len(acknowledged) + 1


def test_unsynced_writes_are_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs the store without sync: if no data were lost, the simulated disk would be useless."""
    monkeypatch.setattr(disks, "DSYNC", 0)
    monkeypatch.setattr(disks.Disk, "sync", lambda *_: None)
    disk = files(tmp_path)
    store = opened(disk)
    for number in range(20):
        store.place_order("BTCUSDT", Side.BUY, 1, 100, f"k{number}")
    (log,) = tmp_path.glob("log-*")
    before = log.read_bytes()
    lose_power(store, disk)
    assert log.read_bytes() != before


def test_a_full_disk_leaves_a_partial_write(tmp_path: Path) -> None:
    disk = files(tmp_path)
    disk.replace(tmp_path / "log", b"head", "log")
    file = disk.open(tmp_path / "log", "log")
    disk.full = 1.0
    with pytest.raises(OSError, match="full"):
        disk.write(file, b"x" * 100, "log")
    assert os.fstat(file).st_size < 100
    os.close(file)


@pytest.mark.parametrize("step", range(2, 60, 2))
def test_a_restart_syncs_the_files_of_a_killed_process(tmp_path: Path, step: int) -> None:
    """Killed at any step of a snapshot. The next process acknowledges an order and loses power."""
    disk = files(tmp_path, step)
    store = opened(disk)
    keys = ("a", "b", "c")
    acknowledged = [
        store.place_order("BTCUSDT", Side.BUY, 1, 100, key).client_order_id for key in keys
    ]
    disk.dying = (step, "crash")
    with contextlib.suppress(Killed):
        store.save_snapshot()
        store.save_snapshot()
    store._journal.close()
    disk.revive()
    store = opened(disk)
    acknowledged.append(store.place_order("BTCUSDT", Side.BUY, 1, 100, "last").client_order_id)
    lose_power(store, disk)
    with opened(disk) as again:
        assert [order.client_order_id for order in again.orders()] == acknowledged
