"""The verdicts of long runs can be good and bad."""

from __future__ import annotations

import pytest

from proof.endurance.judge import growth, is_level, per_hour


def test_growth_during_warm_up_is_ignored() -> None:
    values = [10.0, 15.0, *([20.0] * 6)]
    assert growth(values, "own_mb") == (20.0, 20.0, True)


def test_a_slow_leak_is_seen() -> None:
    minutes = range(60)
    values = [40.0 + 0.2 * minute for minute in minutes]
    assert not growth(values, "own_mb").is_flat
    assert per_hour([60.0 * minute for minute in minutes], values) == pytest.approx(12.0)


def test_noise_is_not_growth_but_small_leaks_of_blocks_are() -> None:
    assert growth([30.0, 31.0] * 10, "own_mb").is_flat
    assert not growth([100_000.0 + 500 * n for n in range(60)], "blocks").is_flat


def test_too_few_samples_have_no_verdict() -> None:
    with pytest.raises(ValueError, match="too few"):
        growth([1.0] * 7, "own_mb")


def test_a_sawtooth_is_level_and_a_slope_is_not() -> None:
    assert is_level([float(n % 10) for n in range(60)])
    assert not is_level([float(n) for n in range(60)])
