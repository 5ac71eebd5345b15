"""Times: relative for people, epoch seconds and ISO 8601 for programs."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime

_UNITS = ((86_400.0, "d"), (3_600.0, "h"), (60.0, "m"), (1.0, "s"))


def iso(at: float) -> str:
    """2026-01-31T12:00:00.000Z"""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def clock(at: float) -> str:
    """Of the day, in local time: 12:00:00.000"""
    return datetime.fromtimestamp(at, UTC).astimezone().strftime("%H:%M:%S.%f")[:-3]


def relative(at: float | None, now: float) -> str:
    """'5s ago', 'in 3m'; '-' for never."""
    if at is None:
        return "-"
    gap = now - at
    return f"{length(gap)} ago" if gap >= 0 else f"in {length(-gap)}"


def length(seconds: float) -> str:
    """A duration in its two largest units: '850ms', '5.2s', '3m 20s', '2d 4h'."""
    if seconds < 1.0:
        return f"{seconds * 1000:.0f}ms"
    if seconds < 10.0:
        return f"{seconds:.1f}s"
    for (size, unit), (smaller, name) in itertools.pairwise(_UNITS):
        if seconds >= size:
            rest = int(seconds % size / smaller)
            return (
                f"{int(seconds / size)}{unit} {rest}{name}"
                if rest
                else f"{int(seconds / size)}{unit}"
            )
    return f"{seconds:.0f}s"


def stamped(**times: float | None) -> dict[str, object]:
    """Each time twice: `created_at` in epoch seconds, `created_at_iso` for reading."""
    found: dict[str, object] = {}
    for name, at in times.items():
        found[name] = at
        found[f"{name}_iso"] = None if at is None else iso(at)
    return found
