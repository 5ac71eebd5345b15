"""The size of a run. Everything that is drawn is drawn from its seed."""

from __future__ import annotations

import random
from dataclasses import dataclass

ADMIN = "hf_admin_" + "7" * 40
PROJECT = "plugins"
"""The project of the offline nodes."""
LEASE_SECONDS = 5.0
"""The shortest lease of a remote worker."""


@dataclass(frozen=True)
class Plan:
    """One run. The order of events also depends on the machine: a seed repeats the faults, not the run."""

    seed: int
    seconds: float = 60.0
    """How long faults happen."""
    gateways: int = 3
    direct_workers: int = 2
    remote_workers: int = 2
    watchers: int = 50
    audiences: int = 5
    """Processes of watchers."""
    offline_nodes: int = 3
    reconnects: int = 100
    """Connections of watchers that are reset."""
    jobs_per_second: float = 10.0
    fault_every_seconds: float = 1.2
    quiet_seconds: float = 120.0
    """A bound for what must happen after the last fault."""

    def rng(self, part: str) -> random.Random:
        """The random numbers of one part of the run."""
        return random.Random(f"{self.seed} {part}")


def short(seed: int) -> Plan:
    """The form of the test suite."""
    return Plan(
        seed,
        seconds=4.0,
        gateways=2,
        direct_workers=1,
        remote_workers=1,
        watchers=8,
        audiences=1,
        offline_nodes=2,
        reconnects=12,
        jobs_per_second=8.0,
        fault_every_seconds=0.6,
    )
