"""When a node counts as gone: it has not been heard of for several of its leases. And how two nodes differ in
what they say of a type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

LEASES: Final = 3
"""A node that has not been heard of for so many of its leases is not live."""
DEFAULT_LEASE_SECONDS: Final = 30.0


def lease_seconds_of(said: dict[str, Any]) -> float:
    """The lease that a node says it works with."""
    return float(said.get("lease_seconds", DEFAULT_LEASE_SECONDS))


def is_live(seen_at: float, lease_seconds: float, now: float) -> bool:
    return now - seen_at < LEASES * lease_seconds


def definitions(said: Mapping[str, Any]) -> dict[str, dict[str, object]]:
    """The types of a node with the options that are not the default. Empty for a node of a version that does
    not say."""
    options = said.get("type_options")
    if not isinstance(options, dict):
        return {}
    return {name: options.get(name, {}) for name in said.get("types", ())}


def difference(one: Mapping[str, object], other: Mapping[str, object]) -> str:
    """The options in which two definitions of a type differ: 'max_attempts 5 and 2'. Empty when in none."""
    names = sorted(one.keys() | other.keys())
    return ", ".join(
        f"{name} {_said(one, name)} and {_said(other, name)}"
        for name in names
        if one.get(name) != other.get(name)
    )


def _said(options: Mapping[str, object], name: str) -> str:
    value = options.get(name, "default")
    return f"{value:g}" if isinstance(value, float) else str(value)
