"""Durations and load of a case: the same for every subject."""

from __future__ import annotations

from dataclasses import dataclass

LEASE_SECONDS = 6
"""Lease, visibility timeout or heartbeat timeout of a queue."""
SLOTS = 16
"""Jobs that one worker process may run at once."""
WORKERS = 2
SHORT_MS = 10
LONG_MS = 300
LONG_EVERY = 5
"""Every fifth job is long, so that a killed worker always has running jobs."""


@dataclass(frozen=True)
class Plan:
    """Durations of the phases of one case, in seconds."""

    rate: int = 100
    """Jobs offered each second."""
    warm: float = 2.0
    base: float = 5.0
    recovery_least: float = 8.0
    recovery_most: float = 25.0
    """The load goes on until the rate is back, at least and at most this long after the fault."""
    window: float = 4.0
    """The recovered rate is that of the last seconds of the load."""
    drain: float = 20.0
    """After the load, at most this long until everything has ended."""
    burst: int = 20_000
    burst_drain: float = 45.0
    churn: int = 5_000


QUICK = Plan(
    warm=1.0,
    base=3.0,
    recovery_least=4.0,
    recovery_most=12.0,
    window=2.0,
    drain=10.0,
    burst=4_000,
    burst_drain=15.0,
    churn=1_000,
)
