"""Limits on concurrency and on the rate of starts. Exact, shared by all processes.

A limit is a row in the store; tasks name the limits that they count against. Concurrency is a counter;
rate is GCRA (one timestamp, no history). Promises: never more than `max_running` at once; in any window
of `rate_seconds` at most `rate_count + burst - 1` starts; a refusal costs no attempt and does not delay tasks
of other limits. Never: reads a clock (`now` is an argument).
"""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import Final

import msgspec
from msgspec.structs import replace

_RATE: Final = re.compile(r"^(\d+)\s*/\s*(\d+)?\s*(s|m|h|d)$")
_UNIT_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}

TICKS_PER_SECOND: Final = 2**22
"""The resolution of epoch seconds as floats. Whole ticks add up without rounding errors, so the number of
permits is exact."""
TOLERANCE_TICKS: Final = 4
"""About a microsecond. A start that is early by no more counts as on time."""
LIMIT_MAX: Final = 1_000_000
"""The largest concurrency, rate or burst."""
LET_IN_SECONDS: Final = 0.5
"""Unparked tasks take their permits within this time. After it, the next ones are unparked."""


class LimitRule(msgspec.Struct, frozen=True, omit_defaults=True):
    """The settings of a limit."""

    max_running: int | None = None
    rate_count: int | None = None
    rate_seconds: float = 1.0
    burst: int = 1


class Limit(msgspec.Struct, frozen=True):
    """A limit with its rule and its current use."""

    name: str
    rule: LimitRule
    running: int = 0
    parked: int = 0
    """Tasks that wait at this limit, outside the queue of ready tasks."""
    full_until: float = 0.0
    """GCRA's theoretical arrival time."""
    look_at: float | None = None
    """When to unpark tasks; None while only the end of a running task can free a permit."""
    rule_at: float = 0.0
    """When the task was created that brought this rule."""
    head: tuple[int, float] | None = None
    """Priority and due time of the first parked task, as of the last check."""


def parse_rate(text: str) -> tuple[int, float]:
    """'100/m', '5/s', '10/30s' -> (count, seconds). ValueError for any other text."""
    match = _RATE.match(text.strip())
    if not match or int(match[1]) < 1 or (match[2] is not None and int(match[2]) < 1):
        raise ValueError(f"'{text}' is not a rate: write count/unit, e.g. '100/m' or '10/30s'")
    return int(match[1]), float(int(match[2] or 1) * _UNIT_SECONDS[match[3]])


def name_of(type_name: str, key: str | None = None) -> str:
    """The name of a type's limit, or of its limit for one key. The names are unique: the type is the part
    before the first slash. No name starts with '!', which marks gates that are not limits."""
    name = type_name.replace("%", "%25").replace("/", "%2F")
    if name.startswith("!"):
        name = f"%21{name[1:]}"
    return name if key is None else f"{name}/{key}"


def is_of_key(name: str) -> bool:
    """Whether this is the name of a limit for one key."""
    return "/" in name


def permits(limit: Limit, now: float) -> float:
    """How many tasks may start now under this limit; infinity without a rule."""
    free = math.inf
    rule = limit.rule
    if rule.max_running is not None:
        free = max(0, rule.max_running - limit.running)
    if rule.rate_count is not None:
        interval = _interval_ticks(rule.rate_seconds, rule.rate_count)
        slack = interval * (rule.burst - 1) + min(TOLERANCE_TICKS, interval // 2)
        ahead = round((max(limit.full_until, now) - now) * TICKS_PER_SECOND)
        free = min(free, max(0, (slack - ahead) // interval + 1))
    return free


@lru_cache(maxsize=1_000)
def _interval_ticks(rate_seconds: float, rate_count: int) -> int:
    """The time between two starts, rounded up so that the rate is never exceeded."""
    return max(1, math.ceil(rate_seconds * TICKS_PER_SECOND / rate_count))


def take(limit: Limit, now: float) -> Limit:
    """The limit after one start."""
    rule = limit.rule
    if rule.rate_count is None:
        return replace(limit, running=limit.running + 1)
    interval = _interval_ticks(rule.rate_seconds, rule.rate_count) / TICKS_PER_SECOND
    return replace(
        limit, running=limit.running + 1, full_until=max(limit.full_until, now) + interval
    )


def opens_at(limit: Limit, now: float) -> float | None:
    """When the rate allows the next start; None when only the end of a running task can."""
    rule = limit.rule
    if rule.max_running is not None and limit.running >= rule.max_running:
        return None
    if rule.rate_count is None:
        return now
    slack = (
        _interval_ticks(rule.rate_seconds, rule.rate_count) * (rule.burst - 1) / TICKS_PER_SECOND
    )
    return max(now, limit.full_until - slack)


def with_rule(limit: Limit, rule: LimitRule, made_at: float, *, is_new: bool) -> Limit:
    """The limit with this rule, unless its current rule came with a newer task. For two tasks of the same
    moment the new rule wins."""
    is_older = made_at < limit.rule_at or (made_at == limit.rule_at and not is_new)
    if rule == limit.rule or is_older:
        return limit
    return replace(limit, rule=rule, rule_at=made_at)


def next_look(limit: Limit, now: float) -> float | None:
    """When to unpark tasks. While there are permits, tasks that were unparked before may still take them.
    A time that was set stays; otherwise the check comes within `LET_IN_SECONDS`."""
    if not limit.parked:
        return None
    at = opens_at(limit, now)
    if at is None or at > now:
        return at
    soon = now + LET_IN_SECONDS
    return soon if limit.look_at is None else min(limit.look_at, soon)


def describe(rule: LimitRule) -> str:
    """The rule in words: 'at most 4 running, 100 starts per 60 s'."""
    parts = []
    if rule.max_running is not None:
        parts.append(f"at most {rule.max_running} running")
    if rule.rate_count is not None:
        parts.append(f"{rule.rate_count} starts per {rule.rate_seconds:g} s")
    return ", ".join(parts) or "no bound"
