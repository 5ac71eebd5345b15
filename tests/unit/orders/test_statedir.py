"""Damage at any byte of any file: a typed error, or every acknowledged order."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast.orders.errors import CorruptLog, CorruptSnapshot, CorruptState, StateLocked
from holdfast.orders.logstore.disk import Disk
from holdfast.orders.logstore.journal import _fill
from holdfast.orders.logstore.log import frame, read_log
from holdfast.orders.logstore.snapshot import read_snapshot
from holdfast.orders.logstore.statedir import StateDir
from holdfast.orders.model.book import MemoryBook
from holdfast.orders.model.order import Order, Side
from tests.unit.orders.state_support import QuickDisk, copied, filled_folder, open_store


def recovered(folder: Path) -> list[Order]:
    """The orders in the directory; CorruptState when it cannot be trusted."""
    book = MemoryBook()
    _fill(book, StateDir(folder, Disk()).recover(lambda: "fresh"))
    return book.orders()


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.name != "orders.lock")


@pytest.fixture(scope="module", params=[0, 1, 2])
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> object:
    """Without a snapshot every byte is tried; with some, and in the long form, every few."""
    folder = tmp_path_factory.mktemp("made") / "state"
    return folder, filled_folder(folder, snapshots=request.param)


def places(path: Path, made: tuple[Path, list[Order]]) -> range:
    """The bytes of a file to damage."""
    has_snapshots = any(made[0].glob("snapshot-*"))
    stride = 13 if has_snapshots and "HOLDFAST_LONG" not in os.environ else 1
    return range(0, path.stat().st_size, stride)


def test_a_flipped_byte_anywhere_loses_nothing_silently(made: tuple[Path, list[Order]]) -> None:
    folder, acknowledged = made
    refused = 0
    for path in files(folder):
        data = path.read_bytes()
        for at in places(path, made):
            for mask in (0x01, data[at]):
                path.write_bytes(data[:at] + bytes([data[at] ^ mask]) + data[at + 1 :])
                try:
                    assert recovered(folder) == acknowledged, f"{path.name} at {at}"
                except CorruptState:
                    refused += 1
            path.write_bytes(data)
    assert refused > 10
    assert recovered(folder) == acknowledged


def test_a_file_truncated_anywhere_loses_nothing_silently(
    made: tuple[Path, list[Order]],
) -> None:
    folder, acknowledged = made
    refused = 0
    for path in files(folder):
        data = path.read_bytes()
        for at in places(path, made):
            for rest in (b"", b"\0" * (len(data) - at)):
                path.write_bytes(data[:at] + rest)
                try:
                    assert recovered(folder) == acknowledged, f"{path.name} at {at}"
                except CorruptState:
                    refused += 1
            path.write_bytes(data)
    assert refused > 10


def test_a_changed_byte_is_never_taken_for_an_incomplete_write(tmp_path: Path) -> None:
    """Even without a mark of the acknowledged record."""
    filled_folder(tmp_path / "state", snapshots=0)
    path = tmp_path / "state" / "log-0000000000000001.jsonl"
    data = path.read_bytes()
    whole = read_log(path, data, is_last=True)
    for at in range(len(data)):
        for mask in (1, 2, 16, 128, 255):
            try:
                found = read_log(
                    path, data[:at] + bytes([data[at] ^ mask]) + data[at + 1 :], is_last=True
                )
            except CorruptLog:
                continue
            assert found.records == whole.records, at


def test_a_snapshot_with_any_byte_changed_or_missing_is_refused(tmp_path: Path) -> None:
    filled_folder(tmp_path / "state", snapshots=1)
    (path,) = (tmp_path / "state").glob("snapshot-*")
    data = path.read_bytes()
    assert len(read_snapshot(path, data).orders) == 1
    for at in range(len(data)):
        broken = [data[:at] + bytes([data[at] ^ mask]) + data[at + 1 :] for mask in (1, 128, 255)]
        for each in (*broken, data[:at]):
            with pytest.raises(CorruptSnapshot):
                read_snapshot(path, each)


def test_a_missing_file_loses_nothing_silently(made: tuple[Path, list[Order]]) -> None:
    folder, acknowledged = made
    for path in files(folder):
        data = path.read_bytes()
        path.unlink()
        try:
            assert recovered(folder) == acknowledged, path.name
        except CorruptState:
            assert path.name != "orders.mark"
        path.write_bytes(data)


def test_a_write_truncated_anywhere_is_removed_and_the_store_continues(tmp_path: Path) -> None:
    """As a crash leaves it: the bytes after the cut were never acknowledged, and the mark does not
    include them."""
    folder = tmp_path / "state"
    filled_folder(folder, snapshots=1)
    log = files(folder)[1]
    assert log.name == "log-0000000000000004.jsonl"
    data = log.read_bytes()
    whole = read_log(log, data, is_last=True)
    ends = [data.index(b"\n") + 1]
    while ends[-1] < len(data):
        ends.append(data.index(b"\n", ends[-1]) + 1)
    assert len(ends) == 1 + len(whole.records)
    stride = 1 if "HOLDFAST_LONG" in os.environ else 5
    for at in range(ends[0], len(data), stride):
        copy = copied(folder, tmp_path / "copy")
        (copy / log.name).write_bytes(data[:at] + b"\0" * (at % 3))
        acknowledged = sum(end <= at for end in ends) - 1
        place = StateDir(copy, QuickDisk())
        place.mark(whole.head.lineage, 3 + acknowledged)
        place.leave()
        with open_store(copy, disk=QuickDisk()) as store:
            # A record that lacks only its newline is complete.
            assert 3 + acknowledged <= store._seq <= 4 + acknowledged
            store.place_order("ETHUSDT", Side.BUY, 1, 1, "after")
            before = store.orders()
        assert recovered(copy) == before


def test_damage_before_the_end_is_reported_with_a_remedy(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    filled_folder(folder, snapshots=0)
    log = folder / "log-0000000000000001.jsonl"
    data = log.read_bytes()
    log.write_bytes(data.replace(b"BTCUSDT", b"ETHUSDT", 1))
    with pytest.raises(CorruptLog, match=r"checksum.*Restore") as caught:
        open_store(folder)
    assert str(log) in str(caught.value)
    # Nothing was changed, and the lock is free again.
    log.write_bytes(data)
    open_store(folder).close()


def test_a_bad_snapshot_falls_back_to_the_one_before_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "state"
    acknowledged = filled_folder(folder, snapshots=3)
    snapshots = sorted(folder.glob("snapshot-*"))
    assert len(snapshots) == 2
    snapshots[-1].write_bytes(snapshots[-1].read_bytes()[:-5])
    with open_store(folder) as store:
        assert store.orders() == acknowledged
    assert "a snapshot was not used" in caplog.text
    for path in sorted(folder.glob("snapshot-*")):
        path.write_bytes(b"")
    with pytest.raises(CorruptSnapshot):
        open_store(folder)


def test_log_files_of_another_store_are_refused(tmp_path: Path) -> None:
    filled_folder(tmp_path / "one", snapshots=1)
    filled_folder(tmp_path / "two", snapshots=1)
    name = "log-0000000000000004.jsonl"
    (tmp_path / "one" / name).write_bytes((tmp_path / "two" / name).read_bytes())
    with pytest.raises(CorruptLog, match="of store"):
        open_store(tmp_path / "one")


def test_a_newer_format_is_not_read(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    filled_folder(folder, snapshots=0)
    log = folder / "log-0000000000000001.jsonl"
    log.write_bytes(frame(b'{"format":2,"lineage":"x","first":1}'))
    with pytest.raises(CorruptLog, match="format 2"):
        open_store(folder)


def test_two_stores_on_one_directory_are_refused(tmp_path: Path) -> None:
    with open_store(tmp_path / "state") as store:
        with pytest.raises(StateLocked, match="process"):
            open_store(tmp_path / "state")
        store.place_order("BTCUSDT", Side.BUY, 1, 1)
    open_store(tmp_path / "state").close()
