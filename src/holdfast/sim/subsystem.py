"""A part of a simulated world: nodes of another kind than workers and clients, with what they have to say.

To add one: nodes whose main is the part's own coroutine, and a line in `parts.py`. What a checker needs
goes to `sim/record.py`.
"""

from __future__ import annotations

from typing import Protocol


class Subsystem(Protocol):
    """What the world asks of it."""

    def calm(self) -> None:
        """The bad days are over: nothing new is wanted, and all must come to rest."""
        ...

    def is_at_rest(self) -> bool: ...

    async def report(self) -> None:
        """Puts on record how things stand in the end."""
        ...

    def end(self) -> None:
        """Lets go of threads and files; the run is over."""
        ...


class LocalDisk(Protocol):
    """A node's own disk, for faults of it."""

    def spoil(self, full: float, failing: float) -> None:
        """The chance that a write finds no room, and that it fails."""
        ...

    def die_after(self, operations: int, kind: str) -> None:
        """A crash, or a power loss, in the middle of an operation of the disk that is to come."""
        ...

    def lose_power(self) -> None:
        """While the node is down."""
        ...
