"""Lengths of time and moments as callers give them: seconds or a timedelta, a datetime with a time zone.

Promises: a `timedelta` counts wherever seconds do. A moment without a time zone is refused: it is another one
on the machine that runs the task. Never: reads a clock.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, TypeAlias

from holdfast.core.check import SECONDS_MAX, Wrong, check_number, check_positive, shown
from holdfast.errors import InvalidInput

Seconds: TypeAlias = float | timedelta
"""A length of time: seconds, or a timedelta."""


def in_seconds(value: Any) -> Any:
    """A timedelta as its seconds. Any other value stays as it is: a check judges it."""
    return value.total_seconds() if isinstance(value, timedelta) else value


def check_seconds(
    field: str, value: object, *, most: float = SECONDS_MAX, wrong: Wrong = InvalidInput
) -> float:
    """A length of time from 0 on, in seconds."""
    return check_number(field, in_seconds(value), most=most, wrong=wrong)


def check_span(
    field: str, value: object, *, most: float = SECONDS_MAX, wrong: Wrong = InvalidInput
) -> float:
    """A length of time above 0, in seconds."""
    return check_positive(field, in_seconds(value), most=most, wrong=wrong)


def check_moment(field: str, value: object) -> float:
    """A moment as seconds since the epoch."""
    if not isinstance(value, datetime):
        raise InvalidInput(f"{field} is {shown(value)}: give a datetime with a time zone")
    if value.utcoffset() is None:
        raise InvalidInput(
            f"{field} {value} has no time zone: give it one, e.g. datetime.now(UTC) + timedelta(hours=1)"
        )
    return check_number(field, value.timestamp(), most=SECONDS_MAX * 1_000)
