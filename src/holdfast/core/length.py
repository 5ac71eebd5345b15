"""Durations as text for people."""

from __future__ import annotations

import itertools
from typing import Final

_UNITS: Final = ((86_400.0, "d"), (3_600.0, "h"), (60.0, "m"), (1.0, "s"))


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
