"""The disk of a simulated trader: what a power loss takes, and what not."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest

from holdfast.orders import disk as disks
from holdfast.orders.durable import DurableOrderStore
from holdfast.orders.order import Side
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


def place_many(store: DurableOrderStore, told: list[str]) -> None:
    for number in range(40):
        order = store.place_order("BTCUSDT", Side.BUY, 1, 100, f"k{number}")
        told.append(order.client_order_id)
        if number % 5 == 4:
            store.save_snapshot()


@pytest.mark.parametrize("seed", range(20))
def test_what_was_acknowledged_survives_a_power_loss_at_any_step(tmp_path: Path, seed: int) -> None:
    disk = files(tmp_path, seed)
    store = opened(disk)
    told: list[str] = []
    disk.dying = (10 + 3 * seed, "power")
    with pytest.raises(Killed):
        place_many(store, told)
    lose_power(store, disk)
    with opened(disk) as again:
        found = [order.client_order_id for order in again.orders()]
    assert found[: len(told)] == told
    assert len(found) <= len(told) + 1


def test_what_was_not_synced_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store without its sync: if this held all the same, the disk would not be one that loses."""
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


def test_a_full_disk_leaves_a_part_of_the_write(tmp_path: Path) -> None:
    disk = files(tmp_path)
    disk.replace(tmp_path / "log", b"head", "log")
    file = disk.open(tmp_path / "log", "log")
    disk.full = 1.0
    with pytest.raises(OSError, match="full"):
        disk.write(file, b"x" * 100, "log")
    assert os.fstat(file).st_size < 100
    os.close(file)


@pytest.mark.parametrize("step", range(2, 60, 2))
def test_what_a_killed_process_left_is_made_durable_before_it_is_built_on(
    tmp_path: Path, step: int
) -> None:
    """Killed at any step of a snapshot: the next one opens what is there, acknowledges, and loses power."""
    disk = files(tmp_path, step)
    store = opened(disk)
    keys = ("a", "b", "c")
    told = [store.place_order("BTCUSDT", Side.BUY, 1, 100, key).client_order_id for key in keys]
    disk.dying = (step, "crash")
    with contextlib.suppress(Killed):
        store.save_snapshot()
        store.save_snapshot()
    store._journal.close()
    disk.revive()
    store = opened(disk)
    told.append(store.place_order("BTCUSDT", Side.BUY, 1, 100, "last").client_order_id)
    lose_power(store, disk)
    with opened(disk) as again:
        assert [order.client_order_id for order in again.orders()] == told
