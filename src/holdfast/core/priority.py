"""Which waiting task is next: strict priority, FIFO within one, and a share for whoever waited long.

The rule: tasks start in order of priority, and within one in the order they became due. But as long as
more is ready than can start, at least one of every `AGED_EVERY` starts of a dispatcher goes to the task
that has waited longest of those that wait for more than `ageing_seconds` and are less urgent than what is
being started anyway.

The bound that follows: a task that has waited `ageing_seconds`, with k older tasks waiting as long, is
started after at most (k + 1) * AGED_EVERY further starts. Low is slow, never starved; and a critical
task never waits behind more than one aged task per `AGED_EVERY` starts.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from holdfast.core.check import shown
from holdfast.core.task import Priority
from holdfast.errors import UnknownPriority

AGED_EVERY: Final = 10
AGEING_SECONDS: Final = 60.0


class Share(NamedTuple):
    """How many starts of a batch belong to the aged, and the starts counted so far."""

    aged: int
    counted: int


def aged_share(counted: int, batch: int) -> Share:
    """Of a batch of starts, those reserved for aged tasks; `counted` carries the remainder over."""
    total = counted + batch
    return Share(min(batch, total // AGED_EVERY), total % AGED_EVERY)


def parse(value: Priority | str | int) -> Priority:
    """A priority from what people write."""
    try:
        if isinstance(value, str):
            return Priority[value.upper()]
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError
        return Priority(value)
    except (KeyError, ValueError):
        names = ", ".join(p.name.lower() for p in Priority)
        raise UnknownPriority(f"{shown(value)} is not a priority: use one of {names}") from None
