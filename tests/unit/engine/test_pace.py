"""The rate at which tasks of a pool end."""

from __future__ import annotations

import pytest

from holdfast.engine.pace import ENDS_ENOUGH, FORGET_SECONDS, WINDOW_SECONDS, Pace


def ended(pace: Pace, count: int) -> None:
    pace.ends += count


def test_a_rate_is_known_after_a_window_with_tasks() -> None:
    pace = Pace()
    pace.begin(0.0)
    ended(pace, 10)
    assert pace.per_second(WINDOW_SECONDS / 2) is None
    ended(pace, 10)
    assert pace.per_second(WINDOW_SECONDS) == 20 / WINDOW_SECONDS


def test_many_ends_show_a_rate_before_the_window_is_over() -> None:
    pace = Pace()
    pace.begin(0.0)
    ended(pace, ENDS_ENOUGH - 1)
    assert pace.per_second(0.001) is None
    ended(pace, 1)
    assert pace.per_second(0.002) == ENDS_ENOUGH / 0.002


def test_slow_tasks_after_quick_ones_lower_the_rate_after_a_window() -> None:
    pace = Pace()
    pace.begin(0.0)
    ended(pace, ENDS_ENOUGH)
    pace.per_second(0.002)
    ended(pace, 10)
    assert pace.per_second(0.002 + WINDOW_SECONDS) == pytest.approx(10 / WINDOW_SECONDS)


def test_time_without_tasks_does_not_count() -> None:
    pace = Pace()
    for n in range(4):
        pace.begin(n * 0.5)
        ended(pace, 5)
        pace.end(n * 0.5 + WINDOW_SECONDS / 2)
    assert pace.per_second(1.9) == pytest.approx(10 / WINDOW_SECONDS)


def test_a_window_begins_after_the_one_before() -> None:
    pace = Pace()
    pace.begin(0.0)
    ended(pace, 1_000)
    pace.per_second(WINDOW_SECONDS)
    ended(pace, 10)
    assert pace.per_second(2 * WINDOW_SECONDS) == 10 / WINDOW_SECONDS


def test_a_long_pause_forgets_the_rate() -> None:
    pace = Pace()
    pace.begin(0.0)
    ended(pace, 10)
    pace.end(WINDOW_SECONDS)
    assert pace.per_second(0.5) is not None
    pace.begin(WINDOW_SECONDS + FORGET_SECONDS + 0.1)
    assert pace.per_second(WINDOW_SECONDS + FORGET_SECONDS + 0.2) is None
