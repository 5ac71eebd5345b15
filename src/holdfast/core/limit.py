"""Limits: how many may run at once, and how often one may start. Exact, shared by all processes.

A limit is a row in the store; tasks name the limits that they count against. Concurrency is a counter;
rate is GCRA (one timestamp, no history). Promises: never more than `max_running` at once; in any window
of `rate_seconds` at most `rate_count + burst - 1` starts; a refusal costs no attempt and does not stand
in the way of other names. Never: floating drift from the machine's clock (`now` is an argument).
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
"""The resolution of epoch seconds as floats. Whole ticks add up exactly, so that a limit that says two
permits gives two."""
TOLERANCE_TICKS: Final = 4
"""About a microsecond: a start that is early by no more is on time."""
LET_IN_SECONDS: Final = 0.5
"""Tasks that were let in take their permits within this time; if not, the next ones are let in."""


class LimitRule(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is allowed."""

    max_running: int | None = None
    rate_count: int | None = None
    rate_seconds: float = 1.0
    burst: int = 1


class Limit(msgspec.Struct, frozen=True):
    """A rule and how much of it is used."""

    name: str
    rule: LimitRule
    running: int = 0
    parked: int = 0
    """Tasks that wait at this limit, out of the way of others."""
    full_until: float = 0.0
    """GCRA's theoretical arrival time."""
    look_at: float | None = None
    """When parked tasks are to be let in; None while only the end of a running task can make room."""
    rule_at: float = 0.0
    """When the task was made that the rule came with."""
    head: tuple[int, float] | None = None
    """Priority and due time of the first task that is parked, as far as was seen."""


def parse_rate(text: str) -> tuple[int, float]:
    """'100/m', '5/s', '10/30s' -> (count, seconds); ValueError says what is wrong."""
    found = _RATE.match(text.strip())
    if not found or int(found[1]) < 1 or (found[2] is not None and int(found[2]) < 1):
        raise ValueError(f"'{text}' is not a rate: write count/unit, e.g. '100/m' or '10/30s'")
    return int(found[1]), float(int(found[2] or 1) * _UNIT_SECONDS[found[3]])


def name_of(type_name: str, key: str | None = None) -> str:
    """The name of a type's limit, or of its limit for one key. No two of them share a name: the type is what
    stands before the first slash. None starts with '!', which names gates that are not limits."""
    name = type_name.replace("%", "%25").replace("/", "%2F")
    if name.startswith("!"):
        name = f"%21{name[1:]}"
    return name if key is None else f"{name}/{key}"


def permits(limit: Limit, now: float) -> float:
    """How many tasks this limit would let start now; infinity when it does not say."""
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
    """The time between two starts, rounded up: a rate is never exceeded."""
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
    """When the rate will allow the next start; None when only a running task's end can."""
    rule = limit.rule
    if rule.max_running is not None and limit.running >= rule.max_running:
        return None
    if rule.rate_count is None:
        return now
    slack = (
        _interval_ticks(rule.rate_seconds, rule.rate_count) * (rule.burst - 1) / TICKS_PER_SECOND
    )
    return max(now, limit.full_until - slack)


def ruled(limit: Limit, rule: LimitRule, made_at: float, *, is_new: bool) -> Limit:
    """The limit under the rule that the youngest task came with; of two of one moment, the new one."""
    is_older = made_at < limit.rule_at or (made_at == limit.rule_at and not is_new)
    if rule == limit.rule or is_older:
        return limit
    return replace(limit, rule=rule, rule_at=made_at)


def next_look(limit: Limit, now: float) -> float | None:
    """When to let parked tasks in. While there are permits, tasks that were let in before may be under way:
    the look that is due stays due, and there is one in any case."""
    if not limit.parked:
        return None
    at = opens_at(limit, now)
    if at is None or at > now:
        return at
    soon = now + LET_IN_SECONDS
    return soon if limit.look_at is None else min(limit.look_at, soon)


def describe(rule: LimitRule) -> str:
    """For people: 'at most 4 running, 100 starts per 60 s'."""
    parts = []
    if rule.max_running is not None:
        parts.append(f"at most {rule.max_running} running")
    if rule.rate_count is not None:
        parts.append(f"{rule.rate_count} starts per {rule.rate_seconds:g} s")
    return ", ".join(parts) or "no bound"
