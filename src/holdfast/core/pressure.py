"""Backpressure: the answer to a producer, given the backlog of a queue.

Promises: a typed answer (accepted, accepted under pressure, rejected) from the depth of the backlog and
the age of its oldest task. Never: blocks, drops silently, or raises for anything but a rejection.
"""

from __future__ import annotations

import math
import sys
from enum import StrEnum
from typing import Final

import msgspec

TRUSTED_SECONDS: Final = 1.0
TRUSTED_SECONDS_MAX: Final = 30.0
COMING_PER_SECOND: Final = 200_000
"""An upper bound on the enqueue rate of all producers together."""


class Pressure(StrEnum):
    """Whether a queue accepts new tasks."""

    ACCEPTED = "accepted"
    UNDER_PRESSURE = "under_pressure"
    REJECTED = "rejected"


ACCEPTED: Final = Pressure.ACCEPTED


class DepthBounds(msgspec.Struct, frozen=True):
    """The bounds of a queue's backlog; None means no bound."""

    depth_max: int | None = 10_000_000
    oldest_seconds_max: float | None = None
    warn_share: float = 0.8
    """Share of a bound from which the answer is `under_pressure`."""


class Backlog(msgspec.Struct, frozen=True):
    """The tasks that wait in a queue."""

    depth: int
    oldest_seconds: float = 0.0


def judge(bounds: DepthBounds, backlog: Backlog, adding: int = 1) -> tuple[Pressure, str]:
    """The answer and its reason."""
    answer, reason = Pressure.ACCEPTED, ""
    checks = (
        ("depth", float(backlog.depth + adding), bounds.depth_max, "tasks wait"),
        ("age", backlog.oldest_seconds, bounds.oldest_seconds_max, "s is the oldest wait"),
    )
    for name, value, bound, unit in checks:
        if bound is None:
            continue
        if value > bound:
            return Pressure.REJECTED, f"{name} bound: {value:g} {unit}, the bound is {bound:g}"
        if value > bound * bounds.warn_share:
            answer, reason = (
                Pressure.UNDER_PRESSURE,
                f"{name} near its bound: {value:g} of {bound:g}",
            )
    return answer, reason


def headroom(bounds: DepthBounds, backlog: Backlog) -> int:
    """How many more tasks `judge` accepts without pressure, as long as only the depth grows."""
    oldest_max = bounds.oldest_seconds_max
    if oldest_max is not None and backlog.oldest_seconds > oldest_max * bounds.warn_share:
        return 0
    if bounds.depth_max is None:
        return sys.maxsize
    return max(0, math.floor(bounds.depth_max * bounds.warn_share) - backlog.depth)


def trusted_seconds(bounds: DepthBounds, headroom_count: int) -> float:
    """How long a measured backlog may be reused: shorter when it is close to the bound, because other
    producers add tasks meanwhile."""
    if bounds.oldest_seconds_max is not None:
        return TRUSTED_SECONDS
    return min(TRUSTED_SECONDS_MAX, max(TRUSTED_SECONDS, headroom_count / COMING_PER_SECOND))
