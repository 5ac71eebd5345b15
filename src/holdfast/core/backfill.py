"""Backfills of schedules: the past times that one covers, and what makes the task of a time unique.

Promises: a range has the same times whenever it is asked for, so a repeated backfill makes no second task of
a time. Never: I/O, clocks.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from holdfast.core import codec
from holdfast.core.check import NAME_CHARS_MAX, check_number, shown
from holdfast.core.schedule import Schedule, next_fire, zone_of
from holdfast.core.search.values import seconds
from holdfast.core.wire import TIME_MAX, time_text
from holdfast.errors import InvalidInput

TIMES_MAX: Final = 1_000
"""Times that one backfill covers."""
_SIGN: Final = "@"
_TIME_CHARS: Final = len(_SIGN) + len("2026-08-01T10:00:00.000Z")


def past_fires(schedule: Schedule, since: float, until: float, now: float) -> list[float]:
    """The times of a schedule from `since` on and before `until`, which has passed."""
    if schedule.spec.startswith("@every "):
        raise InvalidInput(
            f"schedule '{schedule.name}' fires {schedule.spec}, which has no fixed times: only a schedule "
            "with cron fields or an alias such as '@daily' can be backfilled"
        )
    if not since < until <= now:
        raise InvalidInput(
            "a backfill goes from an earlier time to a later one, and both have passed: the schedule fires "
            "at later times by itself"
        )
    found: list[float] = []
    after = since - 1.0  # A time that equals `since` counts.
    while (after := _next(schedule, after, until)) < until:
        if after >= since:
            found.append(after)
        if len(found) > TIMES_MAX:
            raise InvalidInput(
                f"schedule '{schedule.name}' has more than {TIMES_MAX} times in this range: backfill it in "
                "shorter ranges"
            )
    return found


def _next(schedule: Schedule, after: float, until: float) -> float:
    """The next time; `until` if the schedule has no further one."""
    try:
        return next_fire(schedule.spec, schedule.timezone, after)
    except InvalidInput:
        return until


def moment_of(text: str, timezone: str, now: float) -> float:
    """The time of a text in ISO format, or of an age as searches have it: `2d` is two days ago. A text
    without a zone is in the zone of the schedule."""
    age = seconds(text)
    if age is not None:
        return max(0.0, now - age)
    try:
        found = datetime.fromisoformat(text)
        if found.utcoffset() is None:
            found = found.replace(tzinfo=zone_of(timezone))
        return check_number("time", found.timestamp(), most=TIME_MAX)
    except (ValueError, OverflowError, OSError):
        raise InvalidInput(
            f"{shown(text)} is no time: write a date such as 2026-08-01, a time such as 2026-08-01T10:00, "
            "with a zone such as +02:00 or in the zone of the schedule, or an age such as 2h"
        ) from None


def fire_key(name: str, at: float) -> str:
    """The idempotency key of the task for one time of a schedule."""
    fits = len(name) <= NAME_CHARS_MAX - _TIME_CHARS
    return f"{name if fits else codec.digest(name)}{_SIGN}{time_text(at)}"
