"""Which bus goes with a store: the one place that picks hints.

PostgreSQL has NOTIFY; the processes of a file send each other datagrams and watch its version; a store in
memory has no other process to hear of.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from holdfast.bus.local import LocalBus
from holdfast.bus.port import Bus
from holdfast.clock import Clock


class File(Protocol):
    """What a bus needs of a store that is a file."""

    path: str

    def version(self) -> int:
        """Changes with every commit of another connection, and of another event loop of this process."""
        ...

    def on_commit(self, listener: Callable[[], None]) -> None:
        """Calls back in the running event loop, after each commit of this loop that changed something."""
        ...


def bus_for(url: str, clock: Clock, file: File | None, *, name: str) -> Bus:
    """`file` is None where no other process can come. The name is this bus's alone."""
    if url.startswith(("postgresql://", "postgres://")):
        from holdfast.bus.postgres import PostgresBus

        return PostgresBus(url, clock, name)
    if file is None:
        return LocalBus()
    from holdfast.bus.file import FileBus
    from holdfast.bus.peers import Peers

    peers = Peers(Path(file.path), name, clock.monotonic)
    return FileBus(file.version, peers, clock, on_commit=file.on_commit)
