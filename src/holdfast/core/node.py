"""When a node counts as gone: it has not been heard of for several of its leases."""

from __future__ import annotations

from typing import Any, Final

LEASES: Final = 3
"""A node that has not been heard of for so many of its leases is not live."""
DEFAULT_LEASE_SECONDS: Final = 30.0


def lease_seconds_of(said: dict[str, Any]) -> float:
    """The lease that a node says it works with."""
    return float(said.get("lease_seconds", DEFAULT_LEASE_SECONDS))


def is_live(seen_at: float, lease_seconds: float, now: float) -> bool:
    return now - seen_at < LEASES * lease_seconds
