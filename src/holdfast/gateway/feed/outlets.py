"""An outlet that queues, for transports that are written by a task: SSE, and WebSockets of other servers.

Promises: what is queued is bounded by the high mark, by 1,000 frames, and by one write more. The task takes
all that is queued at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from holdfast.clock import Clock
from holdfast.core.subscription import BUFFER_FRAMES, FlowBounds

CLOSE_GRACE_SECONDS: Final = 10.0
"""How long a closed connection may take to read what was queued."""


class QueueOutlet:
    """See `Outlet`."""

    def __init__(self, bounds: FlowBounds, separator: bytes = b"\n\n") -> None:
        """`separator`: ends a frame, and is nowhere within one."""
        self._separator = separator
        self._frames = 0
        self._taken_frames = 0
        self.on_full: Callable[[], None] = _nothing
        self.on_drained: Callable[[], None] = _nothing
        self.closed: tuple[int, str] | None = None
        self._bounds = bounds
        self._queued: list[bytes] = []
        self._taken = 0
        """Bytes that the transport has taken and not yet written."""
        self._size = 0
        self._wake = asyncio.Event()
        self._writer: asyncio.Task[object] | None = None

    def write(self, data: bytes) -> None:
        if self.closed is not None:
            return
        self._queued.append(data)
        was_full = self._is_full()
        self._size += len(data)
        self._frames += data.count(self._separator)
        self._wake.set()
        if self._is_full() and not was_full:
            self.on_full()

    def _is_full(self) -> bool:
        return self._size > self._bounds.high_bytes or self._frames > BUFFER_FRAMES

    def buffered(self) -> int:
        return self._size

    def close(self, code: int, reason: str) -> None:
        if self.closed is not None:
            return
        self.closed = (code, reason)
        self._wake.set()
        if self._writer is not None:
            asyncio.get_running_loop().call_later(CLOSE_GRACE_SECONDS, self._writer.cancel)

    async def take(self, clock: Clock, seconds: float) -> list[bytes] | None:
        """What is queued, when there is something; nothing after `seconds`. None: it is closed and empty."""
        self._writer = asyncio.current_task()
        self._written()
        if not self._queued and self.closed is None:
            self._wake.clear()
            await clock.wait(self._wake, seconds)
        queued, self._queued = self._queued, []
        if not queued and self.closed is not None:
            return None
        self._taken = sum(map(len, queued))
        self._taken_frames = self._frames
        return queued

    def _written(self) -> None:
        """What was taken before has been written."""
        was_low = self._is_low()
        self._size -= self._taken
        self._frames -= self._taken_frames
        self._taken = self._taken_frames = 0
        if self._is_low() and not was_low:
            self.on_drained()

    def _is_low(self) -> bool:
        return self._size <= self._bounds.low_bytes and self._frames <= BUFFER_FRAMES // 4


def _nothing() -> None:
    return
