"""Faults between the execution loop and a simulated exchange, all drawn from one seed.

Promises: the same seed and the same call have the same outcome in every process. Never: uses `random`.
"""

from __future__ import annotations

import msgspec

from holdfast.core import codec


def draw(seed: int, *parts: object) -> float:
    """A number in [0, 1) from a stable hash."""
    return int(codec.digest(str(seed), *map(str, parts))[:13], 16) / 2**52


def between(low: float, high: float, drawn: float) -> float:
    return low + (high - low) * drawn


class Faults(msgspec.Struct, frozen=True, kw_only=True):
    """Shares are probabilities in [0, 1] for each call, order or message. The default has no faults."""

    latency_min_ms: float = 1.0
    latency_max_ms: float = 20.0
    timeout_ms: float = 250.0
    """How long a caller waits for a reply."""

    lost_requests: float = 0.0
    """Requests that never arrive."""
    late_requests: float = 0.0
    """Requests that arrive after the caller has timed out."""
    late_max_ms: float = 4_000.0
    repeated_requests: float = 0.0
    """Requests that the network delivers twice."""
    lost_replies: float = 0.0
    """Requests that arrive, but whose reply is lost."""
    outages: float = 0.0
    """The share of periods of `outage_seconds` in which no call gets through."""
    outage_seconds: float = 5.0

    rejects: float = 0.0
    late_rejects: float = 0.0
    """Orders that are accepted first and rejected before their last fill."""
    short_fills: float = 0.0
    """Orders that are reported as filled with slightly less than the ordered quantity."""
    average_places: int = 8
    """Decimal places of the average price in reports."""
    partial_fills: float = 0.3
    """Orders that are filled in several parts."""
    resting: float = 0.2
    """Orders that are never filled completely."""
    fill_max_ms: float = 3_000.0

    lost_fills: float = 0.0
    repeated_fills: float = 0.0
    reordered_fills: float = 0.0
    stale_quotes: float = 0.0
    """The share of periods of `outage_seconds` in which quotes do not change."""


CALM = Faults()
ROUGH = Faults(
    lost_requests=0.05,
    late_requests=0.05,
    repeated_requests=0.05,
    lost_replies=0.08,
    rejects=0.04,
    partial_fills=0.5,
    lost_fills=0.1,
    repeated_fills=0.15,
    reordered_fills=0.25,
)


class Fate(msgspec.Struct, frozen=True):
    """The outcome of one call, in seconds after it was made. None: it does not happen."""

    arrives_after: float | None
    again_after: float | None
    replies_after: float | None

    @staticmethod
    def of(faults: Faults, seed: int, *call: object, now: float) -> Fate:
        def chance(share: float, name: str) -> bool:
            return draw(seed, name, *call) < share

        def latency(name: str) -> float:
            drawn = draw(seed, name, *call)
            return between(faults.latency_min_ms, faults.latency_max_ms, drawn) / 1000

        stretch = int(now // faults.outage_seconds)
        if draw(seed, "outage", stretch) < faults.outages or chance(faults.lost_requests, "lost"):
            return Fate(None, None, None)
        timeout = faults.timeout_ms / 1000
        arrives = latency("up")
        if chance(faults.late_requests, "late"):
            arrives = timeout + draw(seed, "lateness", *call) * faults.late_max_ms / 1000
        again = None
        if chance(faults.repeated_requests, "repeated"):
            again = arrives + draw(seed, "apart", *call) * faults.late_max_ms / 1000
        replies = arrives + latency("down")
        if replies > timeout or chance(faults.lost_replies, "unheard"):
            return Fate(arrives, again, None)
        return Fate(arrives, again, replies)
