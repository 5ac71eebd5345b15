"""The logical clock of a project.

Promises: the clock rises with every accepted write, and it is above every clock that the writer has read.
Never: decides anything. Versions and fences decide.
"""

from __future__ import annotations

from typing import Final

import msgspec

AHEAD_MAX: Final = 1_000_000
"""How far ahead of the project's clock the clock of a node may be."""
CLOCK_MAX: Final = 2**53 - 1
"""The largest integer that every JSON reader reads without loss. The clock stops there."""


class ClockTick(msgspec.Struct, frozen=True):
    """The clock after a write."""

    clock: int
    is_clamped: bool
    """Whether `local_clock` was too far ahead. The answer names it in `warnings`."""


def advance(clock: int, node_clock: int, local_clock: int = 0) -> ClockTick:
    """The project's clock after a write of a node that has `node_clock` in the store and sent `local_clock`.

    Both are clamped: a clock that jumps by more would use up the integers."""
    ceiling = clock + AHEAD_MAX
    after = max(clock, min(node_clock, ceiling), min(local_clock, ceiling)) + 1
    return ClockTick(min(after, CLOCK_MAX), local_clock > ceiling)
