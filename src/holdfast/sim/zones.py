"""Machines without time zones: a schedule that one node can evaluate, and another cannot."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from holdfast.core import schedule
from holdfast.sim.loop import NODE, OUTSIDE

NAME: Final = ZoneInfo.__name__
LACKING: Final = frozenset({"w1", "w3"})
"""The workers whose machines have none."""


@contextmanager
def zoneless() -> Iterator[None]:
    """For the length of a run."""
    before: Callable[[str], ZoneInfo] = getattr(schedule, NAME)

    def look_up(name: str) -> Any:
        if name != "UTC" and NODE.get(OUTSIDE).partition("#")[0] in LACKING:
            raise ZoneInfoNotFoundError(f"no time zone found with key {name}")
        return before(name)

    setattr(schedule, NAME, look_up)
    try:
        yield
    finally:
        setattr(schedule, NAME, before)
