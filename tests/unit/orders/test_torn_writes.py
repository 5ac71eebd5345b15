"""A write torn by a power loss is removed; a missing sector of an acknowledged write is damage."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from holdfast.orders.errors import CorruptLog
from holdfast.orders.logstore.log import SECTOR_BYTES, head_line, read_log, record_line
from holdfast.orders.model.commands import Change
from holdfast.orders.model.order import FreezeState

PATH = Path("log")


def line(number: int, first: int, size: int) -> bytes:
    freeze = FreezeState(epoch=number, frozen=True, reason="x" * size)
    return record_line(number, Change(freeze=freeze), first)


def write(first: int, sizes: list[int]) -> bytes:
    """One write of the group commit."""
    return b"".join(line(first + at, first, size) for at, size in enumerate(sizes))


def without(data: bytes, begin: int, sectors: set[int]) -> bytes:
    """The file, with those sectors after `begin` never written."""
    left = bytearray(data)
    for sector in sectors:
        low, high = max(begin, sector * SECTOR_BYTES), min(len(data), (sector + 1) * SECTOR_BYTES)
        left[low:high] = bytes(max(0, high - low))
    return bytes(left)


sizes = st.lists(st.integers(0, 400), min_size=1, max_size=12)


@given(sizes, sizes, st.data())
def test_the_last_write_is_removed_if_any_of_its_sectors_are_missing(
    safe: list[int], last: list[int], data: st.DataObject
) -> None:
    before = head_line("x", 1) + b"".join(write(at, [size]) for at, size in enumerate(safe, 1))
    whole = before + write(len(safe) + 1, last)
    touched = range(len(before) // SECTOR_BYTES, len(whole) // SECTOR_BYTES + 1)
    gone = data.draw(st.sets(st.sampled_from(touched)))
    found = read_log(PATH, without(whole, len(before), gone), is_last=True)
    assert len(safe) <= len(found.records) <= len(safe) + len(last)
    assert [record.seq for record in found.records] == list(range(1, len(found.records) + 1))
    if not gone:
        assert len(found.records) == len(safe) + len(last)


@given(sizes, st.data())
def test_a_missing_sector_before_a_later_write_is_damage(
    last: list[int], data: st.DataObject
) -> None:
    begin = head_line("x", 1)
    first = write(1, [1200, *last])
    whole = begin + first + write(len(last) + 2, [10])
    inside = range(len(begin) // SECTOR_BYTES + 1, (len(begin) + len(first)) // SECTOR_BYTES)
    gone = {data.draw(st.sampled_from(inside))}
    with pytest.raises(CorruptLog):
        read_log(PATH, without(whole, len(begin), gone), is_last=True)


def test_zeros_that_are_not_a_missing_sector_are_damage() -> None:
    begin = head_line("x", 1)
    whole = bytearray(begin + write(1, [600]))
    whole[len(begin) + 60 : len(begin) + 70] = bytes(10)
    with pytest.raises(CorruptLog, match="checksum"):
        read_log(PATH, bytes(whole), is_last=True)
