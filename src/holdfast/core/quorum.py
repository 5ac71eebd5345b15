"""The arithmetic of a lock on N independent nodes (Redlock).

Promises: a grant needs a majority of all nodes, and what is left of its ttl, after the time that asking
took and the drift of clocks, must be positive. Never: a clock of its own (`elapsed` is an argument).
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.lease import DRIFT_SECONDS, DRIFT_SHARE


def majority(nodes: int) -> int:
    return nodes // 2 + 1


def drift_ms(
    ttl_ms: int, share: float = DRIFT_SHARE, fixed_ms: float = DRIFT_SECONDS * 1000
) -> float:
    """How far the clocks of nodes and holder may run apart within the ttl."""
    return ttl_ms * share + fixed_ms


def validity_ms(ttl_ms: int, elapsed_seconds: float, drift: float) -> float:
    """For how long a grant is still good once it has arrived; not above 0: it is not."""
    return ttl_ms - elapsed_seconds * 1000 - drift


def agreed(answers: Sequence[bool | None]) -> bool | None:
    """What a majority says; None when too few nodes answered (None) to ever know."""
    needed = majority(len(answers))
    if sum(answer is not None for answer in answers) < needed:
        return None
    return sum(answer is True for answer in answers) >= needed
