"""Backpressure: what a producer is told when work comes faster than it goes.

Promises: a typed answer (accepted, accepted under pressure, rejected) from depth and age of the waiting
tasks. Never: blocks, drops silently, or raises for anything but a rejection.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Pressure(StrEnum):
    """How a queue takes new work."""

    ACCEPTED = "accepted"
    UNDER_PRESSURE = "under_pressure"
    REJECTED = "rejected"


class Bounds(msgspec.Struct, frozen=True):
    """When to warn and when to refuse; None means no bound."""

    depth_max: int | None = 10_000_000
    oldest_seconds_max: float | None = None
    warn_share: float = 0.8
    """Share of a bound from which the answer is `under_pressure`."""


class Load(msgspec.Struct, frozen=True):
    """What waits in a queue."""

    depth: int
    oldest_seconds: float = 0.0


def judge(bounds: Bounds, load: Load, adding: int = 1) -> tuple[Pressure, str]:
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
