"""What goes wrong between us and a simulated exchange, and how much: all of it drawn from one seed.

Promises: the same seed and the same call give the same fate in every process. Never: random numbers.
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
    """Shares are chances in [0, 1] for each call, order or message. The default is a calm day."""

    latency_min_ms: float = 1.0
    latency_max_ms: float = 20.0
    timeout_ms: float = 250.0
    """So long a caller waits for a reply."""

    lost_requests: float = 0.0
    """They never arrive."""
    late_requests: float = 0.0
    """They arrive after the caller has given up."""
    late_max_ms: float = 4_000.0
    repeated_requests: float = 0.0
    """The network delivers them twice."""
    lost_replies: float = 0.0
    """The request arrived, the caller does not hear of it."""
    outages: float = 0.0
    """The share of stretches of `outage_seconds` in which no call gets through."""
    outage_seconds: float = 5.0

    rejects: float = 0.0
    late_rejects: float = 0.0
    """Orders that are accepted first and rejected before their last fill."""
    short_fills: float = 0.0
    """Orders that are called filled with a little less than was ordered."""
    average_places: int = 8
    """Averages are rounded to so many."""
    partial_fills: float = 0.3
    """Orders that are filled in pieces."""
    resting: float = 0.2
    """Orders that are not filled to the end."""
    fill_max_ms: float = 3_000.0

    lost_fills: float = 0.0
    repeated_fills: float = 0.0
    reordered_fills: float = 0.0
    stale_quotes: float = 0.0
    """The share of stretches of `outage_seconds` in which the market stands still."""


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
    """What becomes of one call, in seconds after it was made; None: it does not."""

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
