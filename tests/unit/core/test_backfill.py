"""The times that a backfill covers."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given, strategies as st

from holdfast.core.backfill import TIMES_MAX, fire_key, moment_of, past_fires
from holdfast.core.check import NAME_CHARS_MAX
from holdfast.core.schedule import Schedule, next_fire
from holdfast.errors import InvalidInput

NOW = datetime(2026, 8, 10, tzinfo=UTC).timestamp()
HOUR = 3_600.0
moments = st.floats(min_value=NOW - 30 * HOUR, max_value=NOW, allow_nan=False)


def schedule(spec: str = "0 * * * *", timezone: str = "UTC") -> Schedule:
    return Schedule("s", "work", "default", spec, timezone, "{}", 2, 0.0)


@given(moments, moments, st.sampled_from(["0 * * * *", "*/20 * * * *", "30 3 * * *"]))
def test_a_range_has_each_of_its_times_once(a: float, b: float, spec: str) -> None:
    since, until = sorted((a, b))
    if since == until:
        return
    found = past_fires(schedule(spec), since, until, NOW)
    assert found == sorted(set(found))
    assert all(since <= at < until for at in found)
    assert all(next_fire(spec, "UTC", at - 1.0) == at for at in found)
    missed = next_fire(spec, "UTC", found[-1] if found else since - 1.0)
    assert missed >= until or missed < since


@given(moments, moments, moments)
def test_two_ranges_that_meet_have_the_times_of_the_whole(a: float, b: float, c: float) -> None:
    since, middle, until = sorted((a, b, c))
    if not since < middle < until:
        return
    parts = [
        *past_fires(schedule(), since, middle, NOW),
        *past_fires(schedule(), middle, until, NOW),
    ]
    assert parts == past_fires(schedule(), since, until, NOW)


def test_times_follow_the_clock_of_the_schedule() -> None:
    nightly = schedule("0 3 * * *", "Europe/Prague")
    since = moment_of("2026-03-28", nightly.timezone, NOW)
    until = moment_of("2026-03-31T00:00+02:00", nightly.timezone, NOW)
    shown = [
        datetime.fromtimestamp(at, UTC).isoformat() for at in past_fires(nightly, since, until, NOW)
    ]
    assert shown == [
        "2026-03-28T02:00:00+00:00",
        "2026-03-29T01:00:00+00:00",
        "2026-03-30T01:00:00+00:00",
    ]


@pytest.mark.parametrize(
    ("spec", "since", "until", "message"),
    [
        ("@every 5m", NOW - HOUR, NOW, "no fixed times"),
        ("0 * * * *", NOW, NOW, "both have passed"),
        ("0 * * * *", NOW - HOUR, NOW + 1, "both have passed"),
        ("* * * * *", NOW - 60.0 * (TIMES_MAX + 1), NOW, "more than 1000 times"),
    ],
)
def test_a_range_that_is_refused(spec: str, since: float, until: float, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        past_fires(schedule(spec), since, until, NOW)


def test_the_largest_range() -> None:
    minutely = schedule("* * * * *")
    assert len(past_fires(minutely, NOW - 60.0 * TIMES_MAX, NOW, NOW)) == TIMES_MAX


def test_a_schedule_without_a_further_time_ends() -> None:
    assert past_fires(schedule("0 0 30 2 *"), NOW - HOUR, NOW, NOW) == []


@pytest.mark.parametrize("text", ["noon", "", "2026-13-01", "0001-01-01T00:00+23:59"])
def test_a_text_that_is_no_time(text: str) -> None:
    with pytest.raises(InvalidInput, match="time"):
        moment_of(text, "UTC", NOW)


@pytest.mark.parametrize(
    ("text", "ago"), [("2h", 2 * HOUR), ("1d", 24 * HOUR), ("90m", 1.5 * HOUR)]
)
def test_an_age_is_that_long_ago(text: str, ago: float) -> None:
    assert moment_of(text, "Europe/Prague", NOW) == NOW - ago


def test_keys_fit_and_differ() -> None:
    long = ["a" * NAME_CHARS_MAX, "a" * (NAME_CHARS_MAX - 1) + "b"]
    keys = {fire_key(name, at) for name in (*long, "s") for at in (NOW, NOW + 60)}
    assert len(keys) == 6
    assert all(len(key) <= NAME_CHARS_MAX for key in keys)
