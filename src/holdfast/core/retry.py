"""When to try again: an exponential curve with a cap, and jitter that can be replayed.

Promises: the same (task, attempt) gives the same delay in every process. Never: random numbers.
"""

from __future__ import annotations

import hashlib

JITTER_SHARE = 0.2


def unit_jitter(key: str, attempt: int) -> float:
    """A number in [0, 1) from a stable hash of the key and the attempt."""
    seed = hashlib.blake2b(f"{key}:{attempt}".encode(), digest_size=8).digest()
    return int.from_bytes(seed, "big") / 2**64


def delay_seconds(attempt: int, *, base: float, cap: float, jitter: float) -> float:
    """The pause after failed attempt number `attempt` (the first is 1): base * 2^(n-1), up to 20 %
    more by jitter in [0, 1), never over the cap."""
    exponential = base * 2.0 ** min(attempt - 1, 62)
    return min(exponential * (1.0 + JITTER_SHARE * jitter), cap)
