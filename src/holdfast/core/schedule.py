"""Cron schedules: the next due time, and the handling of missed fires.

Promises: follows Debian's cron across clock changes; missed fires are coalesced into one task. Never: decides
which node fires; the store lets exactly one do it.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
from cronsim import CronSim, CronSimError

from holdfast.core.check import SECONDS_MAX, check_name
from holdfast.core.task import DEFAULT_PROJECT
from holdfast.errors import BadConfig, InvalidInput

CODE: Final = "code"
"""The owner of schedules that are defined in code."""
REMOTE: Final = "remote"
"""The owner of schedules that are defined in the code of a worker without a database."""
SILENT_SECONDS: Final = 180.0
"""A schedule of the code that was not announced for this long belongs to no live node."""
EVERY_SECONDS_MIN: Final = 0.001
_CRON_FIELDS: Final = (
    ("minute", "minute", "0 to 59"),
    ("hour", "hour", "0 to 23"),
    ("day-of-month", "day", "1 to 31"),
    ("month", "month", "1 to 12 or JAN to DEC"),
    ("day-of-week", "weekday", "0 to 7 or SUN to SAT"),
)
"""The fields of an expression as cronsim names them and as the docs do, and their values."""
FIELDS: Final = 5
ALIASES: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
UNIT_SECONDS: Final = {"": 1, "s": 1, "m": 60, "h": 3_600, "d": 86_400}
_EVERY: Final = re.compile(r"@every\s+([0-9.eE+-]+)\s*([smhd]?)")


class Schedule(msgspec.Struct, frozen=True):
    """A task that is enqueued at recurring times."""

    name: str
    type: str
    queue: str
    spec: str
    """A cron expression of five fields, an alias such as '@daily', or '@every 30' (seconds), '@every 5m'."""
    timezone: str
    payload_json: str
    priority: int
    next_at: float
    fired_at: float | None = None
    paused: int = 0
    owner: str | None = None
    """CODE or REMOTE for `@task(cron=...)`; None when the schedule was created at run time."""
    announced_at: float | None = None
    """When a node last announced the schedule from its code."""
    project: str = DEFAULT_PROJECT
    """The project of its tasks."""
    version: int = 1
    """Rises with every change, not with a fire."""


def is_silent(schedule: Schedule, now: float) -> bool:
    """Whether no live node has the code of the schedule."""
    return now - (schedule.announced_at or 0.0) > SILENT_SECONDS


def is_changed(before: Schedule, after: Schedule) -> bool:
    """Whether a new definition of a schedule differs from the stored one."""
    return any(
        getattr(before, field) != getattr(after, field)
        for field in (
            "type",
            "queue",
            "spec",
            "timezone",
            "payload_json",
            "priority",
            "owner",
            "project",
        )
    )


def next_fire(spec: str, timezone: str, after: float) -> float:
    """The first time after `after` at which the schedule is due."""
    check_name("cron", spec)
    if spec.startswith("@every "):
        return after + _every_seconds(spec)
    try:
        start = datetime.fromtimestamp(after, tz=UTC).astimezone(zone_of(timezone))
        return next(CronSim(_five_fields(spec), start)).timestamp()
    except CronSimError as error:
        raise InvalidInput(
            f"'{spec}' is not a cron expression: {_wrong_field(spec, error)}"
        ) from None
    except StopIteration:
        raise InvalidInput(f"'{spec}' never fires: no such date exists") from None


def next_fires(spec: str, timezone: str, after: float, count: int) -> list[float]:
    """The first `count` times after `after`. Fewer if the schedule ends before."""
    found: list[float] = []
    while len(found) < count:
        try:
            after = next_fire(spec, timezone, after)
        except InvalidInput:
            if found:
                break
            raise
        found.append(after)
    return found


def spec_of(given: str | timedelta) -> str:
    """The spec as it is stored. A timedelta fires after each such time."""
    if not isinstance(given, timedelta):
        return given
    return f"@every {given.total_seconds():.15g}"


def check_timetable(spec: str, timezone: str) -> None:
    """Checks both, also a time zone that the spec does not use."""
    zone_of(timezone)
    next_fire(spec, timezone, 0.0)


def zone_of(name: str) -> ZoneInfo:
    """The time zone of this name. BadConfig if it is not known."""
    check_name("time zone", name, wrong=BadConfig)
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise BadConfig(
            f"time zone '{name}' is not known: use a name like 'Europe/Prague'"
        ) from None


def _five_fields(spec: str) -> str:
    expression = ALIASES.get(spec.strip(), spec)
    if expression.startswith("@"):
        raise InvalidInput(
            f"'{spec}' is not a schedule: use five fields, '@every 5m' or one of {', '.join(ALIASES)}"
        )
    if len(expression.split()) != FIELDS:
        raise InvalidInput(
            f"'{spec}' is not a cron expression: it needs five fields (minute hour day month weekday); for "
            "seconds write '@every 30'"
        )
    return expression


def _wrong_field(spec: str, error: CronSimError) -> str:
    """Which field is wrong, and what it may be. cronsim names the field only: 'Bad minute'."""
    for value, (name, ours, values) in zip(spec.split(), _CRON_FIELDS, strict=True):
        if str(error) == f"Bad {name}":
            return f"its {ours} '{value}' is wrong: it goes from {values}"
    return str(error)


def _every_seconds(spec: str) -> float:
    match = _EVERY.fullmatch(spec.strip())
    try:
        seconds = float(match[1]) * UNIT_SECONDS[match[2]] if match else 0.0
    except ValueError:
        seconds = 0.0
    if not EVERY_SECONDS_MIN <= seconds <= SECONDS_MAX:
        raise InvalidInput(
            f"'{spec}' needs a positive length of time, e.g. '@every 30' (seconds), '@every 5m', '@every 1h'"
        )
    return seconds
