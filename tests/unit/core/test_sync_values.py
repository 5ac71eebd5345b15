"""The logical clock and the error names of the sync protocol."""

from __future__ import annotations

from hypothesis import given, strategies as st

from holdfast.core.exchange.lamport import AHEAD_MAX, CLOCK_MAX, advance
from holdfast.core.exchange.sync_errors import MEANINGS, SyncError
from tests.error_tree import in_order

clocks = st.integers(0, CLOCK_MAX)
CODES = {
    "already-locked": 409,
    "ambiguous-id": 409,
    "node-fenced": 409,
    "not-claimable": 409,
    "not-runner": 409,
    "unknown-node": 404,
}
"""Codes of the gateway. Each has a class in `errors.py` once a part raises it."""


@given(st.integers(0, CLOCK_MAX - 1), clocks, clocks)
def test_the_clock_rises_above_every_clock_in_reach(clock: int, node: int, local: int) -> None:
    tick = advance(clock, node, local)
    assert clock < tick.clock <= min(clock + AHEAD_MAX + 1, CLOCK_MAX)
    assert tick.is_clamped == (local > clock + AHEAD_MAX)
    for other in (node, local):
        if other <= clock + AHEAD_MAX:
            assert tick.clock > other or other == CLOCK_MAX


def test_the_clock_is_one_above_the_greatest() -> None:
    assert [advance(*c).clock for c in ((7, 3, 5), (3, 7, 5), (3, 5, 7))] == [8, 8, 8]
    assert advance(7, 0, -5).clock == 8
    assert advance(CLOCK_MAX, 0, 0).clock == CLOCK_MAX


def test_a_clock_too_far_ahead_is_clamped() -> None:
    at_bound, beyond = advance(0, 0, AHEAD_MAX), advance(0, 0, AHEAD_MAX + 1)
    assert (at_bound.clock, at_bound.is_clamped) == (AHEAD_MAX + 1, False)
    assert (beyond.clock, beyond.is_clamped) == (AHEAD_MAX + 1, True)


def test_every_error_name_has_a_meaning() -> None:
    assert set(MEANINGS) == set(SyncError)
    assert all(error.value == error.name for error in SyncError)


def test_a_code_has_one_http_status_everywhere() -> None:
    classes = {error.code: error.http_status for error in in_order()}
    for error, meaning in MEANINGS.items():
        assert (classes.get(meaning.code) or CODES[meaning.code]) == meaning.http_status, error
