"""The specs of schedules."""

from __future__ import annotations

from datetime import timedelta

import pytest

from holdfast.core.schedule import ALIASES, next_fire, spec_of
from holdfast.errors import InvalidInput

DAY = 86_400.0


@pytest.mark.parametrize(
    ("spec", "at"),
    [
        ("@every 30", 30.0),
        ("@every 0.5", 0.5),
        ("@every 30s", 30.0),
        ("@every 5m", 300.0),
        ("@every 1.5h", 5_400.0),
        ("@every 2d", 2 * DAY),
        ("@hourly", 3_600.0),
        ("@daily", DAY),
        ("@midnight", DAY),
        ("@weekly", 3 * DAY),
        ("@monthly", 31 * DAY),
        ("@yearly", 365 * DAY),
        ("*/5 * * * *", 300.0),
    ],
)
def test_specs(spec: str, at: float) -> None:
    assert next_fire(spec, "UTC", 0.0) == at


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        (timedelta(minutes=5), 300.0),
        (timedelta(milliseconds=1.5), 0.0015),
        (timedelta(days=3_000), 3_000 * DAY),
    ],
)
def test_a_timedelta_fires_after_each_such_time(given: timedelta, seconds: float) -> None:
    assert next_fire(spec_of(given), "UTC", 0.0) == seconds


def test_a_timedelta_below_the_least_is_refused() -> None:
    with pytest.raises(InvalidInput, match="positive length of time"):
        next_fire(spec_of(timedelta(0)), "UTC", 0.0)


@pytest.mark.parametrize("spec", ALIASES)
def test_an_alias_is_its_expression(spec: str) -> None:
    assert next_fire(spec, "Europe/Prague", 0.0) == next_fire(ALIASES[spec], "Europe/Prague", 0.0)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("* * * * * *", "five fields"),
        ("*/10 * * * * *", "@every 30"),
        ("* * * *", "five fields"),
        ("@reboot", "@hourly"),
        ("@every", "@hourly"),
        ("@every 5 weeks", "length of time"),
        ("@every -5m", "length of time"),
        ("@every 0", "length of time"),
        ("@every nan", "length of time"),
        ("@every 1e400", "length of time"),
        ("61 * * * *", "not a cron expression: its minute '61' is wrong: it goes from 0 to 59"),
        ("* a * * *", "its hour 'a' is wrong: it goes from 0 to 23"),
        ("* * 32 * *", "its day '32' is wrong: it goes from 1 to 31"),
        ("* * * 13 *", "its month '13' is wrong: it goes from 1 to 12 or JAN to DEC"),
        ("* * * * 9", "its weekday '9' is wrong: it goes from 0 to 7 or SUN to SAT"),
    ],
)
def test_specs_that_are_refused(spec: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        next_fire(spec, "UTC", 0.0)
