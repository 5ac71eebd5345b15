"""The parts of the queueing model: the server, the load, the steps of processes, and what a run shows."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import TypeAlias

from holdfast.bus.postgres import HINT_COST


@dataclass(frozen=True, slots=True)
class Machine:
    """The server."""

    cores: int
    sync_seconds: float
    wal_bytes_per_second: float = 400e6
    gathers: bool = False
    """A sync covers the commits that come while it waits (the disk of the validation). A real one covers
    those that were there when it began."""
    shared: bool = False
    """Producers and workers run on the same cores."""


@dataclass(frozen=True, slots=True)
class Load:
    """What runs against the server, and what its steps cost in seconds and bytes."""

    producers: int
    tasks: int
    """Tasks of one commit of a producer."""
    client: float
    server: float
    wal: float
    """Of each task that is handed in."""
    workers: int
    run_client: float
    run_server: float
    run_wal: float
    """Of each task that is run."""
    number: float
    count: float
    feed_wal: float
    """Of each record of the feed."""
    prune: float = 0.0
    prune_wal: float = 0.0
    """Of each task that is deleted."""
    hints: bool = True
    hint_cost: float = HINT_COST
    """0: the rate of hints of a process does not depend on how long their commits take."""
    wake: float = 0.0
    """Of each NOTIFY, for each process that listens: PostgreSQL wakes the backends of all of them."""
    watchers: int = 0
    watch: float = 0.0
    """Processes that read the feed, and what each event costs the server."""


@dataclass(slots=True)
class Resource:
    """Servers of one kind with a line before them."""

    name: str
    size: int = 1
    taken: int = 0
    line: deque[Process] = field(default_factory=deque)
    busy: float = 0.0
    """Seconds in which one of them was taken, in all."""
    since: float = 0.0

    def tick(self, now: float) -> None:
        self.busy += self.taken * (now - self.since)
        self.since = now


@dataclass(frozen=True, slots=True)
class Use:
    """A step: a time on a core."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Wait:
    """A step: a time that needs nothing of the server."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Take:
    resource: Resource


@dataclass(frozen=True, slots=True)
class Give:
    resource: Resource


@dataclass(frozen=True, slots=True)
class Commit:
    """A step: wait until the log is on the disk."""

    wal: float


Step: TypeAlias = Use | Wait | Take | Give | Commit
Process: TypeAlias = Generator[Step, None, None]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run shows."""

    tasks: float
    """Tasks a second that were run to their end."""
    given: float
    """Tasks a second that were handed in."""
    use: dict[str, float]
    """Of each resource, the share of the time in which it was taken."""
    behind: float
    """Records without an offset at the end, in seconds of their coming."""
    commits: float
    syncs: float
    """A second."""
    wal: float
    """Bytes a second."""
    workers_busy: float
