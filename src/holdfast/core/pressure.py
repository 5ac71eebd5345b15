"""Backpressure: what a producer is told when work comes faster than it goes.

Promises: a typed answer (accepted, accepted under pressure, rejected) from depth and age of the waiting
tasks. Never: blocks, drops silently, or raises for anything but a rejection.
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
"""Tasks that all producers together may bring at most."""


class Pressure(StrEnum):
    """How a queue takes new work."""

    ACCEPTED = "accepted"
    UNDER_PRESSURE = "under_pressure"
    REJECTED = "rejected"


ACCEPTED: Final = Pressure.ACCEPTED


class DepthBounds(msgspec.Struct, frozen=True):
    """When to warn and when to refuse; None means no bound."""

    depth_max: int | None = 10_000_000
    oldest_seconds_max: float | None = None
    warn_share: float = 0.8
    """Share of a bound from which the answer is `under_pressure`."""


class Load(msgspec.Struct, frozen=True):
    """What waits in a queue."""

    depth: int
    oldest_seconds: float = 0.0


def judge(bounds: DepthBounds, load: Load, adding: int = 1) -> tuple[Pressure, str]:
    """The answer and its reason."""
    answer, reason = Pressure.ACCEPTED, ""
    checks = (
        ("depth", float(load.depth + adding), bounds.depth_max, "tasks wait"),
        ("age", load.oldest_seconds, bounds.oldest_seconds_max, "s is the oldest wait"),
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


def ease(bounds: DepthBounds, load: Load) -> int:
    """How many more may come before `judge` says anything but accepted, if only depth grows."""
    oldest_max = bounds.oldest_seconds_max
    if oldest_max is not None and load.oldest_seconds > oldest_max * bounds.warn_share:
        return 0
    if bounds.depth_max is None:
        return sys.maxsize
    return max(0, math.floor(bounds.depth_max * bounds.warn_share) - load.depth)


def trusted_seconds(bounds: DepthBounds, left: int) -> float:
    """For how long figures may be believed that leave so much `ease`: others must not use it up unseen."""
    if bounds.oldest_seconds_max is not None:
        return TRUSTED_SECONDS
    return min(TRUSTED_SECONDS_MAX, max(TRUSTED_SECONDS, left / COMING_PER_SECOND))
