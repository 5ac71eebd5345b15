"""Times for people; programs get those of `queue.views`."""

from __future__ import annotations

from datetime import UTC, datetime

from holdfast.core.length import length

__all__ = ["clock", "length", "moment", "relative"]


def clock(at: float | str) -> str:
    """The local time of day: 12:00:00.000. A time of a view is text."""
    try:
        when = (
            datetime.fromisoformat(at) if isinstance(at, str) else datetime.fromtimestamp(at, UTC)
        )
    except ValueError:
        return str(at)
    return when.astimezone().strftime("%H:%M:%S.%f")[:-3]


def moment(at: str) -> str:
    """A time of a view in the local zone, to the minute: 2026-11-18 12:00."""
    return datetime.fromisoformat(at).astimezone().strftime("%Y-%m-%d %H:%M")


def relative(at: float | str | None, now: float) -> str:
    """'5s ago', 'in 3m'; '-' for never. A time of a view is text."""
    if at is None:
        return "-"
    gap = now - (datetime.fromisoformat(at).timestamp() if isinstance(at, str) else at)
    return f"{length(gap)} ago" if gap >= 0 else f"in {length(-gap)}"
