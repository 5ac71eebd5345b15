"""The messages of one worker whose acknowledgement it does not have yet.

Promises: a worker that ignores its window is refused. A message counts until its acknowledgement is sent, not
only queued: a worker that reads nothing cannot make the queue of acknowledgements grow.
"""

from __future__ import annotations

from holdfast.core.errors import RateLimited
from holdfast.core.worker.protocol import Window


class InFlight:
    """The messages of one session."""

    __slots__ = ("_answered_bytes", "_answered_frames", "_bytes", "_frames", "window")

    def __init__(self, window: Window) -> None:
        self.window = window
        self._frames = 0
        self._bytes = 0
        self._answered_frames = 0
        self._answered_bytes = 0
        """Of those messages, the ones whose acknowledgement is queued."""

    def add(self, size: int) -> None:
        """A message has come. RateLimited if the window has no room for it."""
        if not self.window.has_room(self._frames, self._bytes, size):
            raise RateLimited(
                f"more than {self.window.frames} messages or {self.window.bytes} bytes wait for "
                "their acknowledgement: keep to the window of the welcome"
            )
        self._frames += 1
        self._bytes += size

    def answered(self, size: int) -> None:
        """The acknowledgement of a message is queued, or there will be none."""
        self._answered_frames += 1
        self._answered_bytes += size

    def acknowledge(self) -> None:
        """An acknowledgement is about to be sent, which covers all that is queued. Call it before: the worker
        may answer before the sender goes on."""
        self._frames -= self._answered_frames
        self._bytes -= self._answered_bytes
        self._answered_frames = self._answered_bytes = 0
