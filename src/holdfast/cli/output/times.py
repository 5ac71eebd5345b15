"""Times for people; programs get those of `queue.views`."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime

_UNITS = ((86_400.0, "d"), (3_600.0, "h"), (60.0, "m"), (1.0, "s"))


def clock(at: float | str) -> str:
    """The local time of day: 12:00:00.000. A time of a view is text."""
    try:
        when = (
            datetime.fromisoformat(at) if isinstance(at, str) else datetime.fromtimestamp(at, UTC)
        )
    except ValueError:
        return str(at)
    return when.astimezone().strftime("%H:%M:%S.%f")[:-3]


def relative(at: float | str | None, now: float) -> str:
    """'5s ago', 'in 3m'; '-' for never. A time of a view is text."""
    if at is None:
        return "-"
    gap = now - (datetime.fromisoformat(at).timestamp() if isinstance(at, str) else at)
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
