"""Messages of a link on their way into its connection.

Promises: they are sent in order, one at a time. Never: keeps one for the next connection; the link posts
again what has no answer.
"""

from __future__ import annotations

import asyncio
from collections import deque

from holdfast.core.worker.wire import WorkerMessage
from holdfast.remote.channel import Channel


class Outgoing:
    """The messages of one link."""

    def __init__(self) -> None:
        self._messages: deque[WorkerMessage] = deque()
        self._ready = asyncio.Event()

    def put(self, message: WorkerMessage) -> None:
        self._messages.append(message)
        self._ready.set()

    def clear(self) -> None:
        """The connection has ended."""
        self._messages.clear()

    async def run(self, channel: Channel) -> None:
        """Sends what is put, until it is cancelled or the channel ends."""
        while True:
            while self._messages:
                await channel.send(self._messages.popleft())
            self._ready.clear()
            await self._ready.wait()
