"""Hints of the fleet: topics of the bus. A hint carries no data; its listener reads the store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from holdfast.bus.port import FEED, Bus, of_node

FLEET: Final = "fleet"
"""Hosts may have something to do."""
JOBS: Final = "fleet.jobs"
"""A job may have something to do: an execution has ended, or the outbox has an entry."""
NAMED_MAX: Final = 16
"""Hosts that are woken by name. More of them share one hint."""


def wake_hosts(bus: Bus, hosts: Sequence[str]) -> None:
    """Call it after a commit that gave work to these hosts."""
    for host in hosts[: NAMED_MAX + 1] if len(hosts) <= NAMED_MAX else ():
        bus.publish(of_node(host))
    if hosts:
        bus.publish(FLEET)
    bus.publish(FEED)


def wake_jobs(bus: Bus) -> None:
    """Call it after a commit that ended executions, or wrote an entry of the outbox."""
    bus.publish(JOBS)
    bus.publish(FEED)
