"""An outlet that queues, for transports that are written by a task: SSE, and WebSockets of other servers.

Promises: what is queued is bounded by the high mark and one write. The task takes all that is queued at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from holdfast.clock import Clock
from holdfast.core.subscription import FlowBounds

CLOSE_GRACE_SECONDS: Final = 10.0
"""How long a closed connection may take to read what was queued."""


class QueueOutlet:
    """See `Outlet`."""

    def __init__(self, bounds: FlowBounds) -> None:
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
        was_full = self._size > self._bounds.high_bytes
        self._size += len(data)
        self._wake.set()
        if self._size > self._bounds.high_bytes and not was_full:
            self.on_full()

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
        return queued

    def _written(self) -> None:
        """What was taken before has been written."""
        before = self._size
        self._size -= self._taken
        self._taken = 0
        if self._size <= self._bounds.low_bytes < before:
            self.on_drained()


def _nothing() -> None:
    return
