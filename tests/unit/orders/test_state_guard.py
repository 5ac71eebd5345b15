"""One store per state directory, whatever is removed, moved or copied while it works."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

import pytest

from holdfast.errors import DiskFull
from holdfast.orders.errors import StateLocked, StoreFailed
from holdfast.orders.logstore.disk import Disk
from holdfast.orders.logstore.durable import DurableOrderStore
from holdfast.orders.model.order import Side
from tests.unit.orders.state_support import BadDisk, open_store


def place(store: DurableOrderStore, key: str) -> str | None:
    return store.place_order("BTCUSDT", Side.BUY, 1, 100, key).idem_key


def keys(folder: Path) -> set[str | None]:
    with open_store(folder) as store:
        return {order.idem_key for order in store.orders()}


def test_a_removed_lock_file_frees_nothing(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        place(store, "1")
        (tmp_path / "orders.lock").unlink()
        with pytest.raises(StateLocked, match=r"Removing orders\.lock does not free it"):
            open_store(tmp_path)
        place(store, "2")
    assert keys(tmp_path) == {"1", "2"}


def test_moved_files_stay_locked_and_accept_no_writes(tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    store = open_store(before)
    place(store, "1")
    after.mkdir()
    for path in before.iterdir():
        path.rename(after / path.name)
    with pytest.raises(StateLocked):
        open_store(after)
    with pytest.raises(StoreFailed, match="moved, removed or replaced"):
        place(store, "2")
    store.close()
    assert keys(after) >= {"1"}


@pytest.mark.parametrize("is_back", [False, True])
def test_a_store_in_a_renamed_folder_acknowledges_nothing(tmp_path: Path, is_back: bool) -> None:
    store = open_store(tmp_path / "state")
    place(store, "1")
    (tmp_path / "state").rename(tmp_path / "other")
    if is_back:
        open_store(tmp_path / "state").close()
    with pytest.raises(StateLocked):
        open_store(tmp_path / "other")
    with pytest.raises(StoreFailed):
        place(store, "2")
    with pytest.raises(StoreFailed):
        place(store, "3")
    store.close()
    assert keys(tmp_path / "other") >= {"1"}


def test_a_store_with_a_replaced_log_acknowledges_nothing(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    place(store, "1")
    [log] = tmp_path.glob("log-*")
    log.write_bytes(log.read_bytes())  # In place: the same file.
    place(store, "2")
    shutil.copy(log, tmp_path / "copy")
    (tmp_path / "copy").replace(log)
    with pytest.raises(StoreFailed):
        place(store, "3")
    store.close()
    assert keys(tmp_path) == {"1", "2"}


def test_a_copy_is_a_separate_directory(tmp_path: Path) -> None:
    store = open_store(tmp_path / "state")
    place(store, "1")
    shutil.copytree(tmp_path / "state", tmp_path / "copy")
    with open_store(tmp_path / "copy") as other:
        place(other, "2")
        place(store, "3")
    store.close()
    assert keys(tmp_path / "state") == {"1", "3"}
    assert keys(tmp_path / "copy") == {"1", "2"}


def test_files_and_folder_are_for_their_owner_only(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    with open_store(folder) as store:
        place(store, "1")
        store.save_snapshot()
        assert folder.stat().st_mode & 0o777 == 0o700
        assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
        assert len(list(folder.iterdir())) >= 4


def test_a_disk_may_set_the_file_mode(tmp_path: Path) -> None:
    disk = Disk()
    disk.file_mode = 0o640
    with open_store(tmp_path / "state", disk=disk):
        modes = {path.stat().st_mode & 0o777 for path in (tmp_path / "state").iterdir()}
    assert modes == {0o640}


def test_a_write_that_did_not_fit_is_truncated_durably(tmp_path: Path) -> None:
    disk = BadDisk()
    store = open_store(tmp_path, disk=disk)
    disk.steps.clear()
    disk.half = OSError(errno.ENOSPC, "No space left on device")
    with pytest.raises(DiskFull):
        place(store, "1")
    assert disk.steps == ["write log", "truncate log", "sync cut log"]
    disk.half = None
    place(store, "2")
    store.close()
    assert keys(tmp_path) == {"2"}
