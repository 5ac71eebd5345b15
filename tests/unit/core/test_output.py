"""Output of tasks: offsets, repeats, gaps, and what is kept of a long stream."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from holdfast.core.output import (
    FOLD_BYTES,
    HEAD_BYTES,
    TAIL_BYTES,
    Piece,
    Placement,
    fold_through,
    place,
    split,
)


@pytest.mark.parametrize(
    ("start", "data", "outcome", "appended", "end"),
    [
        (4, b"ef", Placement.APPEND, b"ef", 6),
        (None, b"ef", Placement.APPEND, b"ef", 6),
        (2, b"cdef", Placement.APPEND, b"ef", 6),
        (2, b"cd", Placement.DUPLICATE, b"", 4),
        (0, b"ab", Placement.DUPLICATE, b"", 4),
        (2, b"cX", Placement.MISMATCH, b"", 4),
        (2, b"Xdef", Placement.MISMATCH, b"", 4),
        (5, b"f", Placement.GAP, b"", 4),
        (4, b"", Placement.DUPLICATE, b"", 4),
    ],
)
def test_a_chunk_goes_where_its_offset_says(
    start: int | None, data: bytes, outcome: Placement, appended: bytes, end: int
) -> None:
    placed = place(4, start, data, (Piece(0, 2, b"ab"), Piece(2, 2, b"cd")))
    assert (placed.outcome, placed.data, placed.end) == (outcome, appended, end)


def test_folded_bytes_count_as_equal() -> None:
    pieces = (Piece(0, 2, b"ab"), Piece(2, 2, None))
    assert place(4, 0, b"abXXef", pieces).data == b"ef"


def test_a_chunk_is_cut_at_the_end_of_the_head() -> None:
    assert split(HEAD_BYTES - 2, b"abc") == [(HEAD_BYTES - 2, b"ab"), (HEAD_BYTES, b"c")]
    assert split(HEAD_BYTES, b"abc") == [(HEAD_BYTES, b"abc")]
    assert split(0, b"abc") == [(0, b"abc")]


@given(st.lists(st.integers(1, FOLD_BYTES), max_size=30))
def test_folding_keeps_the_tail_and_bounds_what_is_kept(sizes: list[int]) -> None:
    end, kept_from = 0, HEAD_BYTES
    for size in sizes:
        before, end = end, end + size
        through = fold_through(before, end)
        if through is not None:
            assert through == end - TAIL_BYTES
            kept_from = max(kept_from, through)
        assert end - max(kept_from, HEAD_BYTES) <= TAIL_BYTES + 2 * FOLD_BYTES
