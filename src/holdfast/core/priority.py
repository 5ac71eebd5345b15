"""Which task starts next: strict priority, FIFO within a priority, and a share for aged tasks.

The rule: tasks start in the order of their priority, and within a priority in the order in which they became
due. While more tasks are ready than can start, at least one of every `AGED_EVERY` starts of a dispatcher goes
to an aged task: the one that has waited longest of those that have waited for more than `ageing_seconds` and
are less urgent than the tasks that start anyway.

The bound that follows: a task that has waited `ageing_seconds`, with k older aged tasks, starts after at most
(k + 1) * AGED_EVERY further starts. A low priority is slow, never starved. A critical task never waits behind
more than one aged task per `AGED_EVERY` starts.
"""

from __future__ import annotations

from typing import Final

import msgspec

from holdfast.core.check import shown
from holdfast.core.task import Priority
from holdfast.errors import UnknownPriority

AGED_EVERY: Final = 10
AGEING_SECONDS: Final = 60.0


class Share(msgspec.Struct, frozen=True, gc=False):
    """The starts of a batch that are reserved for aged tasks, and the remainder for the next batch."""

    aged: int
    counted: int


def aged_share(counted: int, batch: int) -> Share:
    """The share of aged tasks in a batch of starts. `counted` is the remainder of the batch before."""
    total = counted + batch
    return Share(min(batch, total // AGED_EVERY), total % AGED_EVERY)


def parse(value: Priority | str | int) -> Priority:
    """A priority from its name or number."""
    try:
        if isinstance(value, str):
            return Priority[value.upper()]
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError
        return Priority(value)
    except (KeyError, ValueError):
        names = ", ".join(p.name.lower() for p in Priority)
        raise UnknownPriority(f"{shown(value)} is not a priority: use one of {names}") from None


def named(value: Priority | str | int) -> Priority:
    """A priority from its name, as callers give it. A number is refused: in other queues 0 or 9 comes
    first."""
    if isinstance(value, int) and not isinstance(value, Priority):
        names = ", ".join(p.name.lower() for p in Priority)
        raise UnknownPriority(f"{shown(value)} is not a priority: use one of {names}")
    return parse(value)
