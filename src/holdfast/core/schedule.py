"""Cron schedules: when they are due next, and what to do about fires that were missed.

Promises: follows Debian's cron over changes of the clock; however many fires were missed, one task is
made for them (coalesced). Never: decides who fires; the store lets exactly one instance do it.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
from cronsim import CronSim, CronSimError

from holdfast.errors import BadConfig, InvalidInput


class Schedule(msgspec.Struct, frozen=True):
    """Something that is enqueued again and again."""

    name: str
    type: str
    queue: str
    spec: str
    """A cron expression of five fields, or '@every SECONDS'."""
    timezone: str
    payload_json: str
    priority: int
    next_at: float
    fired_at: float | None = None
    paused: int = 0


def next_fire(spec: str, timezone: str, after: float) -> float:
    """The first moment after `after` at which the schedule is due."""
    if spec.startswith("@every "):
        return after + _every_seconds(spec)
    try:
        zone = ZoneInfo(timezone)
        start = datetime.fromtimestamp(after, tz=UTC).astimezone(zone)
        return next(CronSim(spec, start)).timestamp()
    except CronSimError as error:
        raise InvalidInput(f"'{spec}' is not a cron expression: {error}") from None
    except (ZoneInfoNotFoundError, ValueError):
        raise BadConfig(
            f"time zone '{timezone}' is not known: use a name like 'Europe/Prague'"
        ) from None
    except StopIteration:
        raise InvalidInput(f"'{spec}' never fires: no such date exists") from None


def _every_seconds(spec: str) -> float:
    try:
        seconds = float(spec.removeprefix("@every "))
    except ValueError:
        seconds = 0.0
    if not 0.0 < seconds < math.inf:
        raise InvalidInput(f"'{spec}' needs a positive number of seconds, e.g. '@every 30'")
    return seconds
