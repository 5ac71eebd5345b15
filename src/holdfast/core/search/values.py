"""The values of a query: numbers, durations, dates, and what they bound.

A date stands for its whole day, a time for its whole minute, second or millisecond: `created:2026-11-15` is
that day, `created:>2026-11-15` begins with the day after. Dates without a zone are UTC.
Promises: a text that does not fit gives None, never an error.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple, assert_never

from holdfast.core.search.keys import HELD, Key, Kind
from holdfast.core.search.tree import Between, Compare, Comparison, Exact

DIGITS_MAX: Final = 15
"""A number of this many digits is exact in JSON, in Python and in both databases."""
NOW: Final = "now"
_NUMBER: Final = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")
_DURATION: Final = re.compile(r"(?:[0-9]{1,9}[wdhms])+")
_STEP: Final = re.compile(r"([0-9]+)([wdhms])")
_UNITS: Final = {"w": 604_800, "d": 86_400, "h": 3_600, "m": 60, "s": 1}
_TIME: Final = re.compile(
    r"(?P<day>[0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:T(?P<minute>[0-9]{2}:[0-9]{2})(?P<second>:[0-9]{2})?(?P<part>(?<=:[0-9]{2}:[0-9]{2})\.[0-9]{1,3})?"
    r"(?P<zone>Z|[+-][0-9]{2}:[0-9]{2})?)?"
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Span(NamedTuple):
    """A value with its precision. Without a width it is a point."""

    start: float
    end: float


class Limits(NamedTuple):
    """The bounds of a range; None where it is open."""

    low: float | None = None
    low_included: bool = True
    high: float | None = None
    high_included: bool = False

    def hold(self, value: float) -> bool:
        above = self.low is None or value > self.low or (self.low_included and value == self.low)
        below = (
            self.high is None or value < self.high or (self.high_included and value == self.high)
        )
        return above and below


def number(text: str) -> float | None:
    if _NUMBER.fullmatch(text) is None or sum(map(str.isdigit, text)) > DIGITS_MAX:
        return None
    return float(text)


def seconds(text: str) -> float | None:
    """A duration: `90s`, `1h30m`, `2d`."""
    if _DURATION.fullmatch(text) is None:
        return None
    return float(sum(int(count) * _UNITS[unit] for count, unit in _STEP.findall(text)))


def span(key: Key, text: str, now: float) -> Span | None:
    """The value that the text stands for, on the scale that the key is judged by."""
    match key.kind:
        case Kind.NUMBER:
            names = dict(key.numbers)
            value = float(names[text]) if text in names else number(text)
            return None if value is None else Span(value, value)
        case Kind.JSON:
            value = number(text)
            return None if value is None else Span(value, value)
        case Kind.TIME:
            return _offset(text, now) or _date(text)
        case Kind.AGE:
            age = seconds(text)
            return None if age is None else Span(now - age, now - age)
        case _:
            return None


def limits(key: Key, test: Exact | Compare | Between, now: float) -> Limits:
    """What a test leaves of the scale that the key is judged by."""
    match test:
        case Exact() if key.kind is Kind.LOCK:
            is_held = test.text == HELD
            return Limits(low=now, low_included=False) if is_held else Limits(None, True, now, True)
        case Exact():
            return _between(_known(key, test.text, now), _known(key, test.text, now))
        case Compare():
            mirrored = key.kind is Kind.AGE
            comparison = _MIRRORED[test.comparison] if mirrored else test.comparison
            return _compared(comparison, _known(key, test.bound, now))
        case Between():
            low, high = _known(key, test.low, now), _known(key, test.high, now)
            return _between(high, low) if key.kind is Kind.AGE else _between(low, high)
        case _:
            assert_never(test)


def _compared(comparison: Comparison, value: Span) -> Limits:
    is_point = value.start == value.end
    match comparison:
        case Comparison.ABOVE:
            return Limits(low=value.end, low_included=not is_point)
        case Comparison.AT_LEAST:
            return Limits(low=value.start)
        case Comparison.BELOW:
            return Limits(high=value.start)
        case Comparison.AT_MOST:
            return Limits(high=value.end, high_included=is_point)
        case _:
            assert_never(comparison)


def _between(low: Span, high: Span) -> Limits:
    return Limits(low=low.start, high=high.end, high_included=high.start == high.end)


_MIRRORED: Final = {
    Comparison.ABOVE: Comparison.BELOW,
    Comparison.AT_LEAST: Comparison.AT_MOST,
    Comparison.BELOW: Comparison.ABOVE,
    Comparison.AT_MOST: Comparison.AT_LEAST,
}
"""What is older was created before."""


def _known(key: Key, text: str, now: float) -> Span:
    value = span(key, text, now)
    if value is None:
        raise ValueError(f"'{text}' is not a value of '{key.name}': the parser refuses it")
    return value


def _offset(text: str, now: float) -> Span | None:
    """`now`, or a time relative to it: `-2h`, `+10m`."""
    if text == NOW:
        return Span(now, now)
    distance = seconds(text[1:]) if text[:1] in ("-", "+") else None
    if distance is None:
        return None
    at = now - distance if text[0] == "-" else now + distance
    return Span(at, at)


def _date(text: str) -> Span | None:
    match = _TIME.fullmatch(text)
    if match is None:
        return None
    written = f"{match['day']}T{match['minute'] or '00:00'}{match['second'] or ':00'}"
    try:
        moment = datetime.fromisoformat(f"{written}+00:00")
        zone = _zone_seconds(match["zone"])
    except ValueError:
        return None
    start = (moment - _EPOCH) / timedelta(seconds=1) - zone
    if match["part"]:
        start += int(match["part"][1:].ljust(3, "0")) / 1000
        return Span(start, start + 0.001)
    if match["second"]:
        return Span(start, start + 1)
    return Span(start, start + (60 if match["minute"] else 86_400))


def _zone_seconds(zone: str | None) -> int:
    if zone is None or zone == "Z":
        return 0
    hours, minutes = int(zone[1:3]), int(zone[4:6])
    if hours > 23 or minutes > 59:
        raise ValueError(zone)
    return (hours * 3600 + minutes * 60) * (-1 if zone[0] == "-" else 1)
