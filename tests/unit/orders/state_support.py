"""Failing disks, and state directories for them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from holdfast.orders.logstore.disk import Disk
from holdfast.orders.logstore.durable import DurableOrderStore
from holdfast.orders.model.order import Order, OrderState, Side
from holdfast.primitives.kv import RedisKV

T = TypeVar("T")


class QuickDisk(Disk):
    """Does not sync: for tests of what is written, not of when."""

    def open(self, path: Path, what: str) -> int:
        return self.step(f"open {what}", lambda: os.open(path, os.O_RDWR | os.O_APPEND))

    def step(self, name: str, do: Callable[[], T]) -> T:
        return do() if "sync" not in name else None  # type: ignore[return-value]


class BadDisk(Disk):
    """Fails at the named step, a given number of times."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.failing: dict[str, OSError] = {}
        self.half: OSError | None = None
        """Fail in the middle of the next write of the log."""

    def step(self, name: str, do: Callable[[], T]) -> T:
        self.steps.append(name)
        if name in self.failing:
            raise self.failing[name]
        return do()

    def put(self, file: int, data: bytes | memoryview) -> int:
        if self.half is None:
            return super().put(file, data)
        if len(data) > 10:
            return super().put(file, data[:10])
        raise self.half


def open_store(folder: Path, **options: object) -> DurableOrderStore:
    return DurableOrderStore(RedisKV(), folder, lambda: 1_800_000_000.0, **options)  # type: ignore[arg-type]


def filled_folder(folder: Path, *, snapshots: int = 1) -> list[Order]:
    """A state directory with something of everything; returns the acknowledged orders."""
    with open_store(folder, disk=QuickDisk()) as store:
        for number in range(snapshots + 1):
            order = store.place_order("BTCUSDT", Side.BUY, 2, 100, f"k{number}")
            store.update_order_state(order.client_order_id, OrderState.OPEN, f"o{number}")
            store.update_fill(order.client_order_id, 1, 100)
            if number < snapshots:
                store.save_snapshot()
        return store.orders()


def copied(folder: Path, to: Path) -> Path:
    if to.exists():
        shutil.rmtree(to)
    return Path(shutil.copytree(folder, to))
