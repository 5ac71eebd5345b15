"""Which bus goes with a store: the one place that picks hints.

PostgreSQL has NOTIFY; a file is watched by its version; what is in memory has nobody else to hear of.
"""

from __future__ import annotations

from collections.abc import Callable

from holdfast.bus.local import LocalBus
from holdfast.bus.port import Bus
from holdfast.clock import Clock


def bus_for(url: str, clock: Clock, version: Callable[[], int] | None, *, name: str) -> Bus:
    """`version` changes with every commit of another process; None where no other process can come. The
    name is this bus's alone."""
    if url.startswith(("postgresql://", "postgres://")):
        from holdfast.bus.postgres import PostgresBus

        return PostgresBus(url, clock, name)
    if version is None:
        return LocalBus()
    from holdfast.bus.file import WatchedBus

    return WatchedBus(version)
