"""Windows: rules, time zones, changes of the clocks."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import islice

import pytest
from hypothesis import given, strategies as st

from holdfast.core.fleet.blocks.window import (
    BlockWindow,
    check_window,
    never_closes,
    next_starts,
    parse_rule,
    starts,
    state_at,
)
from holdfast.errors import InvalidInput

ZONES = ["UTC", "Europe/Prague", "America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe"]
days = st.lists(st.sampled_from(["MO", "WE", "SA", "SU"]), unique=True, max_size=3)


@st.composite
def windows(draw: st.DrawFn) -> BlockWindow:
    frequency = draw(st.sampled_from(["DAILY", "WEEKLY", "MONTHLY"]))
    parts = [f"FREQ={frequency}", f"INTERVAL={draw(st.integers(1, 3))}"]
    if by := draw(days):
        parts.append(f"BYDAY={','.join(by)}")
    if draw(st.booleans()):
        hours = draw(st.lists(st.integers(0, 23), min_size=1, max_size=3))
        parts.append(f"BYHOUR={','.join(map(str, hours))}")
    if draw(st.booleans()):
        parts.append(f"BYMINUTE={draw(st.integers(0, 59))}")
    return BlockWindow(
        rrule=";".join(parts),
        duration_seconds=draw(st.sampled_from([60.0, 3_600.0, 86_400.0, 200_000.0])),
        timezone=draw(st.sampled_from(ZONES)),
    )


def at(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def local(window: BlockWindow, after: str, count: int) -> list[str]:
    """The next starts, in UTC."""
    found = islice(starts(window, at(after)), count)
    return [datetime.fromtimestamp(start, UTC).strftime("%Y-%m-%dT%H:%M") for start in found]


@given(windows(), st.floats(at("2026-01-01T00:00+00:00"), at("2027-01-01T00:00+00:00")))
def test_a_state_lasts_until_its_time_and_then_changes(window: BlockWindow, now: float) -> None:
    state = state_at(window, now)
    assert state.until is not None
    assert state.until > now
    for part in (0.25, 0.5, 0.999):
        between = now + (state.until - now) * part
        assert state_at(window, between).is_open == state.is_open
    first = next(starts(window, now - window.duration_seconds))
    if state.is_open:
        assert first <= now < state.until
    else:
        assert state.until == next(start for start in starts(window, now) if start >= now)
        assert state_at(window, state.until).is_open


@given(windows(), st.floats(at("2026-01-01T00:00+00:00"), at("2027-01-01T00:00+00:00")))
def test_starts_come_in_order_and_a_window_opens_with_each(
    window: BlockWindow, after: float
) -> None:
    found = list(islice(starts(window, after), 10))
    assert found == sorted(found)
    assert all(start >= after for start in found)
    assert all(state_at(window, start).is_open for start in found)


def test_the_night_of_every_workday() -> None:
    window = BlockWindow(rrule="FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR;BYHOUR=22", duration_seconds=7_200)
    assert local(window, "2026-11-19T23:00+00:00", 3) == [
        "2026-11-20T22:00",
        "2026-11-23T22:00",
        "2026-11-24T22:00",
    ]
    assert state_at(window, at("2026-11-20T23:59+00:00")).is_open
    assert not state_at(window, at("2026-11-21T00:00+00:00")).is_open


def test_days_of_the_month() -> None:
    first = BlockWindow(rrule="FREQ=MONTHLY;BYDAY=1MO,-1FR", duration_seconds=60)
    assert local(first, "2026-11-01T00:00+00:00", 3) == [
        "2026-11-02T00:00",
        "2026-11-27T00:00",
        "2026-12-07T00:00",
    ]
    last = BlockWindow(
        rrule="FREQ=MONTHLY;BYMONTHDAY=-1;BYHOUR=20;BYMINUTE=30", duration_seconds=60
    )
    assert local(last, "2026-01-15T00:00+00:00", 3) == [
        "2026-01-31T20:30",
        "2026-02-28T20:30",
        "2026-03-31T20:30",
    ]


def test_intervals_count_from_a_fixed_monday() -> None:
    window = BlockWindow(rrule="FREQ=WEEKLY;INTERVAL=2;BYDAY=TU", duration_seconds=60)
    assert local(window, "2024-01-01T00:00+00:00", 2) == ["2024-01-02T00:00", "2024-01-16T00:00"]
    yearly = BlockWindow(rrule="FREQ=MONTHLY;INTERVAL=12", duration_seconds=60)
    assert local(yearly, "2026-02-01T00:00+00:00", 1) == ["2027-01-01T00:00"]


def test_a_time_that_the_clocks_leave_out_starts_later() -> None:
    """In Prague 02:30 does not exist on 29 March 2026: the clocks go from 02:00 to 03:00."""
    window = BlockWindow(
        rrule="FREQ=DAILY;BYHOUR=2;BYMINUTE=30", duration_seconds=3_600, timezone="Europe/Prague"
    )
    assert local(window, "2026-03-28T00:00+00:00", 3) == [
        "2026-03-28T01:30",
        "2026-03-29T01:30",
        "2026-03-30T00:30",
    ]


def test_a_time_that_comes_twice_starts_at_the_first_and_lasts_as_long_as_ever() -> None:
    """In Prague 02:30 comes twice on 25 October 2026: the clocks go from 03:00 to 02:00."""
    window = BlockWindow(
        rrule="FREQ=DAILY;BYHOUR=2;BYMINUTE=30", duration_seconds=3_600, timezone="Europe/Prague"
    )
    start = at("2026-10-25T02:30+02:00")
    assert next(starts(window, at("2026-10-25T00:00+02:00"))) == start
    assert state_at(window, start).until == start + 3_600


def test_windows_without_a_gap_are_one() -> None:
    window = BlockWindow(rrule="FREQ=DAILY;BYHOUR=0,12", duration_seconds=12 * 3_600)
    state = state_at(window, at("2026-06-01T05:00+00:00"))
    assert state.is_open
    assert state.until is not None
    assert state.until > at("2026-07-01T00:00+00:00")


@pytest.mark.parametrize(
    "rule",
    [
        "",
        "DAILY",
        "FREQ=YEARLY",
        "FREQ=DAILY;FREQ=DAILY",
        "FREQ=DAILY;UNTIL=20270101",
        "FREQ=DAILY;BYHOUR=24",
        "FREQ=DAILY;BYHOUR=x",
        "FREQ=DAILY;BYMINUTE=60",
        "FREQ=DAILY;INTERVAL=0",
        "FREQ=WEEKLY;INTERVAL=53",
        "FREQ=DAILY;INTERVAL=1,2",
        "FREQ=WEEKLY;BYDAY=1MO",
        "FREQ=WEEKLY;BYDAY=XX",
        "FREQ=MONTHLY;BYDAY=6MO",
        "FREQ=MONTHLY;BYMONTHDAY=0",
        "FREQ=MONTHLY;BYMONTHDAY=32",
    ],
)
def test_a_wrong_rule_is_refused(rule: str) -> None:
    with pytest.raises(InvalidInput, match=r"window\.rrule"):
        parse_rule(rule)


@given(st.text(alphabet="FREQ=DAILYWKMONTHBYUS;,:+-0123456789", max_size=40))
def test_every_text_is_a_rule_or_is_refused(text: str) -> None:
    try:
        rule = parse_rule(text)
    except InvalidInput:
        return
    assert rule.hours
    assert rule.minutes


@pytest.mark.parametrize(
    ("window", "named"),
    [
        (BlockWindow(rrule="FREQ=DAILY", duration_seconds=0), "duration_seconds"),
        (BlockWindow(rrule="FREQ=DAILY", duration_seconds=1e9), "duration_seconds"),
        (BlockWindow(rrule="FREQ=DAILY", duration_seconds=1, timezone="Mars"), "timezone"),
        (
            BlockWindow(
                rrule="FREQ=MONTHLY;INTERVAL=12;BYDAY=5MO;BYMONTHDAY=1", duration_seconds=1
            ),
            "no date",
        ),
    ],
)
def test_a_wrong_window_is_refused(window: BlockWindow, named: str) -> None:
    with pytest.raises(InvalidInput, match=named):
        check_window(window)
    check_window(BlockWindow(rrule="RRULE:FREQ=DAILY", duration_seconds=60, timezone="Asia/Tokyo"))


def test_the_next_windows_are_those_after_now() -> None:
    window = BlockWindow(
        rrule="FREQ=WEEKLY;BYDAY=MO,TU,WE;BYHOUR=21",
        duration_seconds=14_400.0,
        timezone="Europe/London",
    )
    found = next_starts(window, at("2026-11-18T22:00+00:00"))
    texts = [datetime.fromtimestamp(start, UTC).strftime("%a %d %H:%M") for start in found]
    assert texts == ["Mon 23 21:00", "Tue 24 21:00", "Wed 25 21:00"]


@pytest.mark.parametrize(
    ("rule", "hours", "always"),
    [
        ("FREQ=DAILY;BYHOUR=1", 30, True),
        ("FREQ=DAILY;BYHOUR=1", 24, True),
        ("FREQ=DAILY;BYHOUR=1", 23, False),
        ("FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR", 30, False),
        ("FREQ=DAILY;BYHOUR=2,14", 12, True),
    ],
)
def test_windows_that_overlap_never_close(rule: str, hours: int, always: bool) -> None:
    window = BlockWindow(rrule=rule, duration_seconds=3600.0 * hours)
    assert never_closes(window, at("2026-11-18T22:00+00:00")) is always


def test_a_window_of_a_zone_that_this_machine_does_not_know_counts_as_open() -> None:
    """It was made on another one."""
    window = BlockWindow(rrule="FREQ=DAILY", duration_seconds=60, timezone="Mars/Olympus")
    state = state_at(window, 0.0)
    assert (state.is_open, state.until, state.is_known) == (True, None, False)
    assert next_starts(window, 0.0) == []
    assert not never_closes(window, 0.0)
