"""The pause of a queue."""

from __future__ import annotations

import msgspec


class QueuePause(msgspec.Struct, frozen=True):
    """A queue that is paused, or was."""

    name: str
    paused_at: float | None
    paused_by: str | None
    reason: str | None
    version: int = 0
    """How often it was paused or resumed."""
