"""Turns between the keys of a fair type: weighted round robin.

A fair type has a line of tasks for each key. Lines get turns in the order of their keys, and the first one
again after the last. In a turn a line starts up to `weight` tasks, in their own order.

Promises, for the starts of one lane (type, queue, project and priority):
- While the same keys have waiting tasks, with weights that sum to W, a key of weight w has N * w / W of any N
  consecutive starts, with a deviation of less than w.
- A key whose first task becomes ready waits for at most the weights of the other waiting keys.
- A key without waiting tasks gathers no credit: what it did not use is gone.
- The sequence does not depend on the sizes of the claims.
Never: I/O, or a clock.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final, NamedTuple

WEIGHT_MAX: Final = 1_000
"""The most tasks of one turn: with it a full round takes at most this many starts for each key."""
KEYS_MAX: Final = 1_000
"""Keys that one claim looks at. Keys whose tasks are all delayed count, although they get no turn."""


class Turn(NamedTuple):
    """Whose turn it is in a lane."""

    key: str = ""
    taken: int = 0
    """Tasks that the key has started in this turn."""


class Line(NamedTuple):
    """The waiting tasks of a key."""

    key: str
    weight: int
    ready: int
    """Tasks that may start now. More than the slots to deal counts as that many."""


class WeightChange(NamedTuple):
    """How many tasks a key of a type starts in one turn."""

    type: str
    key: str
    weight: int


class Dealt(NamedTuple):
    """The result of `deal`."""

    keys: list[str]
    """The key of each start, in order."""
    turn: Turn


def deal(turn: Turn, lines: Sequence[Line], slots: int) -> Dealt:
    """Deals up to `slots` starts to the lines, which are sorted by key. Fewer only if all lines end."""
    start = bisect_left(lines, turn.key, key=lambda line: line.key)
    ring = [*lines[start:], *lines[:start]]
    left = {line.key: line.ready for line in ring}
    keys: list[str] = []
    used = turn.taken if ring and ring[0].key == turn.key else 0
    while len(keys) < slots and any(left.values()):
        for line in ring:
            n = min(max(0, line.weight - used), left[line.key], slots - len(keys))
            if n:
                keys += [line.key] * n
                left[line.key] -= n
                turn = Turn(line.key, used + n)
            used = 0
            if len(keys) == slots:
                break
    return Dealt(keys, turn)
