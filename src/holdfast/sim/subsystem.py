"""The interface of a subsystem: simulated nodes other than workers and clients.

To add one, give its nodes a coroutine as `main` and build it in `subsystems.py`. Data for checkers goes to
`record.py`.
"""

from __future__ import annotations

from typing import Protocol


class Subsystem(Protocol):
    """How the world controls a subsystem."""

    def calm(self) -> None:
        """The fault phase is over: start no new work and reach quiescence."""
        ...

    def is_at_rest(self) -> bool: ...

    async def report(self) -> None:
        """Adds the final state to the record."""
        ...

    def end(self) -> None:
        """Releases threads and files at the end of the run."""
        ...


class LocalDisk(Protocol):
    """The disk of one node, as fault injection controls it."""

    def spoil(self, full: float, failing: float) -> None:
        """Sets the probability that a write finds the disk full, and that it fails."""
        ...

    def die_after(self, operations: int, kind: str) -> None:
        """Schedules a crash or a power loss in the middle of a later disk operation."""
        ...

    def lose_power(self) -> None:
        """Applies a power loss while the node is down."""
        ...
