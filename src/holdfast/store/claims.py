"""What a node asks for when it claims, and what it gets."""

from __future__ import annotations

import msgspec

from holdfast.core.task import Task


class ClaimRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a node asks for."""

    node: str
    queues: tuple[str, ...]
    types: tuple[str, ...]
    limit: int
    lease_seconds: float


class Claimed(msgspec.Struct, frozen=True):
    """What it got, when a limit that refused tasks opens again, and how many were refused: behind
    those there may be more that could start at once. `look_again`: part of the line was not looked at,
    or others were quicker with what was seen there. `blind_seconds`: for so long, looks do not see all.
    `held_types`: tasks of these were left, because another transaction holds a limit of theirs."""

    tasks: list[Task]
    opens_at: float | None = None
    parked: int = 0
    look_again: bool = False
    blind_seconds: float = 0.0
    held_types: tuple[str, ...] = ()


class Upcoming(msgspec.Struct, frozen=True):
    """What a worker without work waits for: a task that is due, a limit that lets tasks in."""

    due_at: float | None
    opens_at: float | None
