"""Machines without time zone data: some nodes can evaluate a zoned schedule, others cannot."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from holdfast.core import schedule
from holdfast.sim.loop import NODE, OUTSIDE

NAME: Final = ZoneInfo.__name__
LACKING: Final = frozenset({"w1", "w3"})
"""Workers whose machines have no time zone data."""


@contextmanager
def zoneless() -> Iterator[None]:
    """Removes the time zone data of these workers while the context is open."""
    original: Callable[[str], ZoneInfo] = getattr(schedule, NAME)

    def look_up(name: str) -> Any:
        if name != "UTC" and NODE.get(OUTSIDE).partition("#")[0] in LACKING:
            raise ZoneInfoNotFoundError(f"no time zone found with key {name}")
        return original(name)

    setattr(schedule, NAME, look_up)
    try:
        yield
    finally:
        setattr(schedule, NAME, original)
