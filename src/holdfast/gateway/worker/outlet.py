"""What waits to be written to one worker.

Promises: acknowledgements that wait become one. What waits is bounded, if the session reads its next message
only after `room`. A worker that takes nothing for `STALL_SECONDS` from a full outlet is a slow consumer.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from holdfast.clock import Clock
from holdfast.core.errors import SlowConsumer
from holdfast.core.worker.protocol import merge_acks
from holdfast.core.worker.wire import AnswerFrame, GatewayMessage, Offer, SyncAck

WAITING_MAX: Final = 256
"""Messages that may wait. What one more message of the worker leads to may exceed it."""
WAITING_CHARS_MAX: Final = 8_388_608
"""Characters of the tasks and answers that may wait."""
STALL_SECONDS: Final = 30.0


class Outlet:
    """The messages to one worker, in order."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: deque[GatewayMessage] = deque()
        self._chars = 0
        self._filled = asyncio.Event()
        self._roomy = asyncio.Event()
        self._is_done = False

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, message: GatewayMessage) -> None:
        """Queues a message."""
        last = self._waiting[-1] if self._waiting else None
        if isinstance(message, SyncAck) and isinstance(last, SyncAck):
            merged = merge_acks(last, message)
            if merged is not None:
                self._waiting[-1] = merged
                return
        self._waiting.append(message)
        self._chars += _chars(message)
        self._filled.set()

    async def take(self) -> GatewayMessage | None:
        """The next message, when there is one. None after `finish`."""
        while not self._waiting:
            if self._is_done:
                return None
            self._filled.clear()
            await self._filled.wait()
        message = self._waiting.popleft()
        self._chars -= _chars(message)
        if self._has_room:
            self._roomy.set()
        return message

    async def room(self) -> None:
        """Returns when another message may lead to answers. SlowConsumer if that takes too long."""
        while not self._has_room:
            self._roomy.clear()
            if not await self._clock.wait(self._roomy, STALL_SECONDS):
                raise SlowConsumer(
                    f"{len(self._waiting)} messages wait, and this worker read none for "
                    f"{STALL_SECONDS:.0f} s: read while you send, and connect again"
                )

    def finish(self) -> None:
        """No message follows."""
        self._is_done = True
        self._filled.set()

    @property
    def _has_room(self) -> bool:
        return len(self._waiting) < WAITING_MAX and self._chars < WAITING_CHARS_MAX


def _chars(message: GatewayMessage) -> int:
    """The size of what a message carries for the code of users."""
    if isinstance(message, Offer):
        return sum(
            len(task.task_json) + len(task.checkpoint_json) + len(task.decisions_json)
            for task in message.tasks
        )
    return len(message.value_json) if isinstance(message, AnswerFrame) else 0
