"""Nodes: when a node is live, and how two nodes differ in their definition of a type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from holdfast.core.lease import renewal_interval

LOST_LEASES: Final = 3
"""A node without a heartbeat for this many of its leases is declared lost."""
LATE_HEARTBEATS: Final = 2
"""A node that has missed this many heartbeats is late: no task waits for it."""
DEFAULT_LEASE_SECONDS: Final = 30.0


def lease_seconds_of(description: Mapping[str, Any]) -> float:
    """The lease duration of a node, from its description."""
    return float(description.get("lease_seconds", DEFAULT_LEASE_SECONDS))


def late_at(seen_at: float, description: Mapping[str, Any]) -> float:
    """When the node is late, unless it sends a heartbeat before."""
    return seen_at + LATE_HEARTBEATS * heartbeat_seconds_of(description)


def heartbeat_seconds_of(description: Mapping[str, Any]) -> float:
    """The time between two heartbeats of a node. A process sends one each third of its lease; a node with
    another interval names it."""
    interval = description.get("heartbeat_seconds")
    return float(renewal_interval(lease_seconds_of(description)) if interval is None else interval)


def is_remote(description: Mapping[str, Any]) -> bool:
    """Whether the node reaches the store through a gateway."""
    return description.get("remote") is True


def is_live(seen_at: float, lease_seconds: float, now: float) -> bool:
    """Whether the node was heard of within its lease, in which it sends three heartbeats."""
    return now - seen_at < lease_seconds


def is_lost(seen_at: float, lease_seconds: float, now: float) -> bool:
    return now - seen_at >= LOST_LEASES * lease_seconds


def definitions(description: Mapping[str, Any]) -> dict[str, dict[str, object]]:
    """The types of a node, each with the options that differ from the default. Empty for a node whose version
    does not describe them."""
    options = description.get("type_options")
    if not isinstance(options, dict):
        return {}
    return {name: options.get(name, {}) for name in description.get("types", ())}


def difference(one: Mapping[str, object], other: Mapping[str, object]) -> str:
    """The options in which two definitions of a type differ: 'max_attempts 5 and 2'. Empty when they
    agree."""
    names = sorted(one.keys() | other.keys())
    return ", ".join(
        f"{name} {_shown(one, name)} and {_shown(other, name)}"
        for name in names
        if one.get(name) != other.get(name)
    )


def _shown(options: Mapping[str, object], name: str) -> str:
    value = options.get(name, "default")
    return f"{value:g}" if isinstance(value, float) else str(value)
