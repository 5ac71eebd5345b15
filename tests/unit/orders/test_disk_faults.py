"""A full or broken disk: nothing is acknowledged, and an unknown state is not guessed."""

from __future__ import annotations

import errno
import itertools
import threading
from pathlib import Path

import pytest

from holdfast.errors import DiskFull, HoldfastError, StoreUnavailable
from holdfast.orders.errors import StoreFailed
from holdfast.orders.logstore.durable import DurableOrderStore
from holdfast.orders.model.order import OrderState, Side
from tests.unit.orders.state_support import BadDisk, open_store

FULL = OSError(errno.ENOSPC, "No space left on device")
BROKEN = OSError(errno.EIO, "Input/output error")


@pytest.fixture
def disk() -> BadDisk:
    return BadDisk()


def place(store: DurableOrderStore, key: str) -> str:
    return store.place_order("BTCUSDT", Side.BUY, 1, 1, key).client_order_id


def keys(store: DurableOrderStore) -> list[str | None]:
    return [order.idem_key for order in store.orders()]


@pytest.mark.parametrize("is_half", [False, True])
def test_a_full_disk_refuses_and_the_store_goes_on_when_there_is_room(
    tmp_path: Path, disk: BadDisk, is_half: bool
) -> None:
    with open_store(tmp_path, disk=disk) as store:
        first = place(store, "1")
        if is_half:
            disk.half = FULL
        else:
            disk.failing["write log"] = FULL
        with pytest.raises(DiskFull):
            place(store, "2")
        with pytest.raises(DiskFull):
            store.update_order_state(first, OrderState.OPEN, "m")
        with pytest.raises(DiskFull):
            store.cancel_all_open("c")
        with pytest.raises(DiskFull):
            store.freeze()
        assert keys(store) == ["1"]
        assert store.open_orders()[0].state is OrderState.PENDING
        assert store.freeze_state().epoch == 0
        disk.half = None
        disk.failing.clear()
        place(store, "2")
        assert store.update_order_state(first, OrderState.OPEN, "m") is True
        assert store.verify() == []
    with open_store(tmp_path) as store:
        assert keys(store) == ["1", "2"]


@pytest.mark.parametrize("is_cut_back", [True, False])
def test_a_disk_that_breaks_is_not_written_again(
    tmp_path: Path, disk: BadDisk, is_cut_back: bool
) -> None:
    store = open_store(tmp_path, disk=disk)
    place(store, "1")
    if is_cut_back:
        disk.half = FULL
        disk.failing["truncate log"] = BROKEN
    else:
        disk.failing["write log"] = BROKEN
    with pytest.raises(StoreFailed):
        place(store, "2")
    disk.failing.clear()
    disk.half = None
    with pytest.raises(StoreFailed, match="open it again"):
        place(store, "3")
    # Acknowledged orders can still be read, and their calls repeated.
    assert keys(store) == ["1"]
    place(store, "1")
    store.close()
    with open_store(tmp_path) as store:
        place(store, "3")
        assert keys(store) == ["1", "3"]


def test_every_caller_of_a_failed_batch_and_the_next_gets_the_error(
    tmp_path: Path, disk: BadDisk
) -> None:
    """The first write waits until others queue up behind it, and then fails."""
    store = open_store(tmp_path, disk=disk)
    place(store, "0")
    entered, go = threading.Event(), threading.Event()
    write = disk.put

    def slow(file: int, data: bytes | memoryview) -> int:
        entered.set()
        assert go.wait(30)
        raise FULL

    disk.put = slow  # type: ignore[method-assign]
    errors: list[HoldfastError] = []

    def attempt(key: str) -> None:
        try:
            place(store, key)
        except HoldfastError as error:
            errors.append(error)

    threads = [threading.Thread(target=attempt, args=("1",))]
    threads[0].start()
    assert entered.wait(30)
    threads += [threading.Thread(target=attempt, args=(str(n),)) for n in (2, 3, 1)]
    for thread in threads[1:]:
        thread.start()
    while True:
        with store._lock:
            pending = store._commit._pending
            # Two new orders, and a retry of the first that waits with them.
            if pending is not None and len(pending.lines) == 2:
                break
    go.set()
    for thread in threads:
        thread.join()
    assert len(errors) == 4
    assert {type(error) for error in errors} == {DiskFull}
    disk.put = write  # type: ignore[method-assign]
    assert keys(store) == ["0"]
    for key in "123":
        place(store, key)
    assert keys(store) == ["0", "1", "2", "3"]
    store.close()


def test_no_caller_gets_an_answer_that_is_not_durable(tmp_path: Path, disk: BadDisk) -> None:
    """A read, a replay and a refusal all wait for the write that they rely on."""
    store = open_store(tmp_path, disk=disk)
    entered, go = threading.Event(), threading.Event()
    write = disk.put

    def slow(file: int, data: bytes | memoryview) -> int:
        entered.set()
        assert go.wait(30)
        return write(file, data)

    disk.put = slow  # type: ignore[method-assign]
    answered: list[str] = []
    calls = {
        "first": lambda: place(store, "1"),
        "replay": lambda: place(store, "1"),
        "read": lambda: str(store.orders()),
        "no news": lambda: str(store.freeze_state()),
    }

    def call(name: str) -> None:
        calls[name]()
        answered.append(name)

    threads = [threading.Thread(target=call, args=(name,)) for name in calls]
    threads[0].start()
    assert entered.wait(30)
    for thread in threads[1:]:
        thread.start()
    while True:
        with store._lock:
            flushing = store._commit._flushing
            if flushing is not None and flushing.threads == 3:
                break
    assert answered == []
    go.set()
    for thread in threads:
        thread.join()
    assert sorted(answered) == sorted(calls)
    store.close()


def test_every_step_may_fail_and_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    """A life in which every step of the disk fails in turn, with both errors; then the directory is read
    again."""
    steps = _life(tmp_path / "whole", BadDisk())[0]
    names = sorted(set(steps))
    assert {"write log", "rename snapshot", "sync folder of log", "remove log"} <= set(names)
    for number, (name, is_late) in enumerate(itertools.product(names, (False, True))):
        for error in (FULL, BROKEN):
            folder = tmp_path / f"{number}-{error.errno}"
            disk = BadDisk()
            _, acknowledged = _life(folder, disk, {name: error}, is_late=is_late)
            with open_store(folder) as store:
                found = {order.idem_key for order in store.orders()}
            assert acknowledged <= found, name


def _life(
    folder: Path, disk: BadDisk, failing: dict[str, OSError] | None = None, *, is_late: bool = False
) -> tuple[list[str], set[str]]:
    """Places and snapshots; returns the acknowledged orders. `is_late`: the disk fails once the store is
    open."""
    done: set[str] = set()
    disk.failing = {} if is_late else failing or {}
    try:
        store = open_store(folder, disk=disk)
    except StoreUnavailable:
        return disk.steps, done
    disk.failing = failing or {}
    for key in ("1", "2", "3"):
        try:
            place(store, key)
            done.add(key)
            store.save_snapshot()
        except StoreUnavailable:
            continue
    store.close()
    return disk.steps, done


def test_a_directory_that_cannot_be_used_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnavailable, match="cannot be used"):
        open_store(tmp_path / "file" / "state")


class LyingDisk(BadDisk):
    """Writes, and then reports a failure."""

    lies = False

    def put(self, file: int, data: bytes | memoryview) -> int:
        done = super().put(file, data)
        if self.lies:
            raise BROKEN
        return done


@pytest.mark.parametrize("call", ["recover_from_snapshot", "save_snapshot"])
def test_a_store_that_failed_builds_nothing_on_what_is_not_known(tmp_path: Path, call: str) -> None:
    """The record is on disk and was not acknowledged: it is neither damage, nor is its number free."""
    disk = LyingDisk()
    store = open_store(tmp_path, disk=disk)
    place(store, "1")
    disk.lies = True
    with pytest.raises(StoreFailed):
        place(store, "2")
    disk.lies = False
    with pytest.raises(StoreFailed, match="open it again"):
        getattr(store, call)()
    store.close()
    with open_store(tmp_path) as again:
        assert keys(again) == ["1", "2"]
