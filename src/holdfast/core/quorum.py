"""The arithmetic of a lock on N independent nodes (Redlock).

Promises: a grant needs a majority of all nodes. Its ttl, less the time that the requests took and the clock
drift, must be positive. Never: reads a clock (`elapsed` is an argument).
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.lease import DRIFT_SECONDS, DRIFT_SHARE


def majority(nodes: int) -> int:
    return nodes // 2 + 1


def drift_ms(
    ttl_ms: int, share: float = DRIFT_SHARE, fixed_ms: float = DRIFT_SECONDS * 1000
) -> float:
    """How far the clocks of the nodes and the holder may drift apart within the ttl."""
    return ttl_ms * share + fixed_ms


def validity_ms(ttl_ms: int, elapsed_seconds: float, drift: float) -> float:
    """How long a grant is still valid when it arrives. It is not valid at 0 or below."""
    return ttl_ms - elapsed_seconds * 1000 - drift


def agreed(answers: Sequence[bool | None]) -> bool | None:
    """The answer of a majority. None when too few nodes answered; a missing answer is None."""
    needed = majority(len(answers))
    if sum(answer is not None for answer in answers) < needed:
        return None
    return sum(answer is True for answer in answers) >= needed
