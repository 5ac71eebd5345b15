"""Windows of time: when a block counts.

A window is `{rrule, duration_seconds, timezone}`. `rrule` is a subset of RFC 5545:

    FREQ=DAILY | WEEKLY | MONTHLY
    INTERVAL=n            every n days, weeks or months, counted from Monday, 1 January 2024
    BYDAY=MO,TU           weekdays; with MONTHLY also 1MO (the first) or -1FR (the last)
    BYMONTHDAY=1,-1       days of the month, also from its end
    BYHOUR=2,14           hours of the day, 0 unless given
    BYMINUTE=0,30         minutes of the hour, 0 unless given

Times are those of the clocks in the time zone. A time that a change of the clocks leaves out starts as much
later as the clocks jump; a time that comes twice starts at the first. The duration is in elapsed seconds, so
a window over a change of the clocks is as long as any other. Promises: every text is a rule or InvalidInput.
Never: I/O, reads a clock.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from itertools import islice, pairwise
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from holdfast.core.check import check_name, check_positive, shown
from holdfast.errors import InvalidInput

DURATION_SECONDS_MAX: Final = 31 * 86_400.0
RULE_CHARS_MAX: Final = 500
INTERVAL_MAX: Final = {"DAILY": 366, "WEEKLY": 52, "MONTHLY": 12}
HORIZON_DAYS: Final = 3_660
"""How far ahead the next window is looked for. One that is later is none."""
MERGED_MAX: Final = 100
"""Windows without a gap between them that are followed to find their end."""
STARTS_SHOWN: Final = 3
OVERLAPS: Final = 8
"""Windows in a row that are looked at: all weekdays."""
START: Final = date(2024, 1, 1)
DAYS: Final = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
_DAY: Final = re.compile(r"([+-]?[1-5])?(MO|TU|WE|TH|FR|SA|SU)")


class BlockWindow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When a block counts."""

    rrule: str
    duration_seconds: float
    timezone: str = "UTC"


class Recurrence(msgspec.Struct, frozen=True, kw_only=True):
    """A rule as it was read."""

    frequency: str
    interval: int = 1
    days: tuple[tuple[int, int], ...] = ()
    """(which of the month, or 0; weekday)."""
    month_days: tuple[int, ...] = ()
    hours: tuple[int, ...] = (0,)
    minutes: tuple[int, ...] = (0,)


class WindowState(msgspec.Struct, frozen=True):
    """Whether a window is open, and until when that stays so."""

    is_open: bool
    until: float | None
    """None: it does not change within ten years."""
    is_known: bool = True
    """False: this machine does not know the time zone, and the window counts as open."""


def check_window(window: BlockWindow) -> None:
    """InvalidInput names what is wrong."""
    parse_rule(window.rrule)
    check_positive("window.duration_seconds", window.duration_seconds, most=DURATION_SECONDS_MAX)
    _zone(window.timezone)
    if state_at(window, START_SECONDS).until is None:
        raise InvalidInput(f"window.rrule is {shown(window.rrule)}: no date is like that")


def read_window(text: str) -> BlockWindow:
    """The window of a row."""
    return _read(text)


@lru_cache(maxsize=1_000)
def _read(text: str) -> BlockWindow:
    return msgspec.json.decode(text, type=BlockWindow)


def _zone(name: str) -> ZoneInfo:
    check_name("window.timezone", name)
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidInput(
            f"window.timezone {shown(name)} is not known: use a name like 'Europe/Prague'"
        ) from None


# -- the rule ----------------------------------------------------------------------------------------


@lru_cache(maxsize=1_000)
def parse_rule(text: str) -> Recurrence:
    """The rule, or InvalidInput."""
    check_name("window.rrule", text, most=RULE_CHARS_MAX)
    parts: dict[str, str] = {}
    for part in text.removeprefix("RRULE:").split(";"):
        name, _, value = part.partition("=")
        if not value or name in parts or name not in PARTS:
            raise _wrong(text, f"part {shown(part)}: use {', '.join(PARTS)}, each once")
        parts[name] = value
    frequency = parts.get("FREQ", "")
    if frequency not in INTERVAL_MAX:
        raise _wrong(text, f"FREQ: use {', '.join(INTERVAL_MAX)}")
    interval = _numbers(text, "INTERVAL", parts.get("INTERVAL", "1"), 1, INTERVAL_MAX[frequency])
    if len(interval) != 1:
        raise _wrong(text, "INTERVAL: give one number")
    return Recurrence(
        frequency=frequency,
        interval=interval[0],
        days=_days(text, frequency, parts.get("BYDAY")),
        month_days=_numbers(text, "BYMONTHDAY", parts.get("BYMONTHDAY", ""), -31, 31),
        hours=_numbers(text, "BYHOUR", parts.get("BYHOUR", "0"), 0, 23),
        minutes=_numbers(text, "BYMINUTE", parts.get("BYMINUTE", "0"), 0, 59),
    )


PARTS: Final = ("FREQ", "INTERVAL", "BYDAY", "BYMONTHDAY", "BYHOUR", "BYMINUTE")


def _wrong(text: str, what: str) -> InvalidInput:
    return InvalidInput(f"window.rrule {shown(text)} has a wrong {what}")


def _numbers(text: str, name: str, value: str, least: int, most: int) -> tuple[int, ...]:
    if not value:
        return ()
    words = value.split(",")
    if not all(re.fullmatch(r"[+-]?[0-9]{1,3}", word) for word in words):
        raise _wrong(text, f"{name}: give numbers from {least} to {most}")
    numbers = sorted({int(word) for word in words})
    if numbers[0] < least or numbers[-1] > most or (least < 0 and 0 in numbers):
        raise _wrong(text, f"{name}: give numbers from {least} to {most}")
    return tuple(numbers)


def _days(text: str, frequency: str, value: str | None) -> tuple[tuple[int, int], ...]:
    found = []
    for word in value.split(",") if value else ():
        match = _DAY.fullmatch(word)
        if match is None or (match[1] and frequency != "MONTHLY"):
            raise _wrong(text, f"BYDAY {shown(word)}: use {', '.join(DAYS)}; 1MO only with MONTHLY")
        found.append((int(match[1] or 0), DAYS.index(match[2])))
    return tuple(found)


# -- the times ---------------------------------------------------------------------------------------


def state_at(window: BlockWindow, now: float) -> WindowState:
    """Whether the window is open at this time, and when that changes. In doubt it is open: a machine without
    the time zone starts nothing that the block may forbid."""
    return _state_at(window, now)


@lru_cache(maxsize=1_000)
def _state_at(window: BlockWindow, now: float) -> WindowState:
    """Cached: the hosts of a job are judged at one time."""
    try:
        _zone(window.timezone)
    except InvalidInput:
        return WindowState(is_open=True, until=None, is_known=False)
    end: float | None = None
    merged = 0
    for start in starts(window, now - window.duration_seconds):
        if end is None and start > now:
            return WindowState(False, start)
        if end is not None and (start > end or merged >= MERGED_MAX):
            break
        if start + window.duration_seconds > now:
            end = start + window.duration_seconds
            merged += 1
    return WindowState(end is not None, end)


def starts(window: BlockWindow, after: float) -> Iterator[float]:
    """The starts of the window from this time on, in order."""
    rule, zone = parse_rule(window.rrule), _zone(window.timezone)
    day = datetime.fromtimestamp(after, UTC).astimezone(zone).date() - timedelta(days=1)
    for _ in range(HORIZON_DAYS):
        if _is_day(rule, day):
            at = sorted(
                datetime.combine(day, time(hour, minute), zone).timestamp()
                for hour in rule.hours
                for minute in rule.minutes
            )
            yield from (start for start in at if start >= after)
        day += timedelta(days=1)


def next_starts(window: BlockWindow, now: float, count: int = STARTS_SHOWN) -> list[float]:
    """The starts of the next windows, of which the first may be earlier than the end of the open one. None
    that this machine does not know."""
    if not state_at(window, now).is_known:
        return []
    return list(islice((start for start in starts(window, now) if start > now), count))


def never_closes(window: BlockWindow, now: float) -> bool:
    """Whether each of the next windows begins before the one before it ends."""
    found = next_starts(window, now, OVERLAPS)
    gaps = [later - start for start, later in pairwise(found)]
    return len(found) == OVERLAPS and max(gaps) <= window.duration_seconds


def _is_day(rule: Recurrence, day: date) -> bool:
    if not _is_period(rule, day):
        return False
    if rule.month_days and not _is_month_day(rule, day):
        return False
    if rule.days:
        return any(_is_weekday(which, weekday, day) for which, weekday in rule.days)
    if rule.month_days or rule.frequency == "DAILY":
        return True
    return day.weekday() == 0 if rule.frequency == "WEEKLY" else day.day == 1


def _is_period(rule: Recurrence, day: date) -> bool:
    match rule.frequency:
        case "DAILY":
            number = (day - START).days
        case "WEEKLY":
            number = (day - START).days // 7
        case _:
            number = (day.year - START.year) * 12 + day.month - START.month
    return number % rule.interval == 0


def _is_month_day(rule: Recurrence, day: date) -> bool:
    last = calendar.monthrange(day.year, day.month)[1]
    return day.day in rule.month_days or day.day - last - 1 in rule.month_days


def _is_weekday(which: int, weekday: int, day: date) -> bool:
    if day.weekday() != weekday:
        return False
    last = calendar.monthrange(day.year, day.month)[1]
    return which in (0, (day.day - 1) // 7 + 1, -((last - day.day) // 7 + 1))


START_SECONDS: Final = datetime.combine(START, time(), UTC).timestamp()
