"""How many frames a client may send."""

from __future__ import annotations

from typing import Final

FRAMES_PER_SECOND: Final = 100.0
FRAMES_BURST: Final = 400.0
"""Enough for all subscriptions of a connection after a reconnect."""


class Bucket:
    """A token bucket."""

    __slots__ = ("_at", "_left")

    def __init__(self, now: float) -> None:
        self._at = now
        self._left = FRAMES_BURST

    def take(self, now: float) -> bool:
        """Takes one token. False: none is left."""
        self._left = min(FRAMES_BURST, self._left + (now - self._at) * FRAMES_PER_SECOND)
        self._at = now
        if self._left < 1.0:
            return False
        self._left -= 1.0
        return True
