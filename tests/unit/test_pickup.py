"""Samples of a pick-up measurement (`proof/bench/pickup.py`)."""

from __future__ import annotations

import pytest

from proof.bench.pickup import STAT, Sample, Sent, figures, samples, stolen_ms
from proof.bench.probe import Hit

MS = 1_000_000


def test_the_steal_of_all_cores() -> None:
    text = "cpu  41913 0 12422 22404 79 0 348 99 0 0\ncpu0 1 2 3 4 5 6 7 8 9 10\n"
    assert stolen_ms(text) == 990
    assert stolen_ms(STAT.read_text()) >= 0


def test_hits_are_joined_with_their_enqueues_whatever_the_order_of_their_ends() -> None:
    sent = [Sent(0, 3 * MS, 0), Sent(50 * MS, 60 * MS, 10)]
    hits = [Hit(54 * MS, 4 * MS), Hit(70 * MS, 70 * MS)]
    assert samples(sent, hits) == [Sample(70.0, 3.0, 0), Sample(4.0, 4.0, 10)]


def test_a_task_that_did_not_run_is_an_error() -> None:
    with pytest.raises(AssertionError, match="0 of 1"):
        samples([Sent(0, 1, 0)], [])


def test_figures_tell_steal_and_enqueue_from_the_rest() -> None:
    found = [Sample(float(n), 1.0, 0) for n in range(1, 100)]
    found += [Sample(200.0, 150.0, 20)]
    shown = figures(found)
    assert (shown["p50"], shown["p99"], shown["p99_calm"]) == (51.0, 200.0, 99.0)
    assert shown["stolen"] == 20.0
    assert shown["slow_stolen"] == 50.0
    assert shown["slow_enqueue"] == pytest.approx(100 * 151 / 299)
