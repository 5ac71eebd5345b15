"""What a listener knows of the heartbeats of a node."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, strategies as st

from holdfast.core.heartbeats import INTERVALS_KEPT, SHORTEST, Heartbeats, heard, looked

EXPECTED = 10.0
gaps = st.lists(st.floats(0.0, 60.0), max_size=80)


def after(*times: float) -> Heartbeats:
    known: Heartbeats | None = None
    for at in times:
        known = heard(known, at, EXPECTED)
    assert known is not None
    return known


def test_each_heartbeat_ends_an_interval() -> None:
    assert after(0.0).intervals == ()
    assert after(0.0, 10.0, 21.0, 55.0).intervals == (10.0, 11.0, 34.0)


def test_many_heartbeats_in_an_interval_show_its_longest_silence() -> None:
    """An agent with work speaks often. Its strip still reaches back as far as that of an idle one."""
    assert after(0.0, 1.0, 3.0, 4.0, 6.0).intervals == (2.0,)
    assert after(0.0, 4.0, 34.0).intervals == (30.0,)


def test_a_clock_that_goes_back_makes_no_interval() -> None:
    assert after(100.0, 40.0, 110.0).intervals == (10.0,)


@given(gaps)
def test_the_intervals_are_bounded_and_miss_no_silence(steps: list[float]) -> None:
    times = [0.0]
    for step in steps:
        times.append(times[-1] + step)
    known = after(*times)
    assert len(known.intervals) <= INTERVALS_KEPT
    assert sum(known.intervals) <= known.at + 1e-6
    silences = [later - earlier for earlier, later in pairwise(times)]
    long = [silence for silence in silences if silence >= SHORTEST * EXPECTED]
    shown = [silence for silence in known.intervals if silence in long]
    assert shown == long[len(long) - len(shown) :]
    assert len(shown) == len(long) or len(known.intervals) == INTERVALS_KEPT


def test_looks_that_are_close_together_show_each_heartbeat() -> None:
    known: Heartbeats | None = None
    for now in range(0, 42, 2):
        known = looked(known, seen_at=now - now % 10, now=float(now), expected_seconds=EXPECTED)
    assert known is not None
    assert known.intervals == (10.0, 10.0, 10.0, 10.0)


def test_looks_that_are_far_apart_claim_nothing() -> None:
    """Between them there may have been other heartbeats."""
    known = looked(None, 0.0, 1.0, EXPECTED)
    known = looked(known, 10.0, 11.0, EXPECTED)
    assert known.intervals == (10.0,)
    known = looked(known, 60.0, 61.0, EXPECTED)
    assert (known.at, known.intervals) == (60.0, ())


def test_a_silence_is_seen_by_looks_too() -> None:
    """A look in each second of a silent node shows the whole silence when it is back."""
    known = looked(None, 0.0, 0.0, EXPECTED)
    for now in range(1, 45):
        known = looked(known, 0.0, float(now), EXPECTED)
    assert looked(known, 44.5, 45.0, EXPECTED).intervals == (44.5,)


def test_a_heartbeat_that_is_heard_and_seen_counts_once() -> None:
    known = heard(heard(None, 0.0, EXPECTED), 10.0, EXPECTED)
    assert looked(known, 10.004, 12.0, EXPECTED).intervals == (10.0,)
