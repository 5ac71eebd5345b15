"""What a queue has open in one event loop.

A queue object may be used from any loop of its process: the store is shared between them, everything here is
not. Futures, events and locks belong to the loop in which they are awaited.
"""

from __future__ import annotations

import asyncio

from holdfast.core.event import Position
from holdfast.core.submit import Submission
from holdfast.engine.batcher import Batcher
from holdfast.engine.engine import Engine
from holdfast.errors import EngineFailed, NotRunning
from holdfast.queue.backend import Backend
from holdfast.queue.waiters import Waiters
from holdfast.store.store import Inserted


class Session:
    """From the first use in a loop until `stop`, or until the loop ends."""

    __slots__ = (
        "backend",
        "closed",
        "draining",
        "engine",
        "entered",
        "failed",
        "failure",
        "is_stopped",
        "loop",
        "opening",
        "plain",
        "starting",
        "stopping",
        "subscribing",
        "subscriptions",
        "waiters",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop, *, is_stopped: bool = False) -> None:
        self.loop = loop
        self.is_stopped = is_stopped
        """Stopped in this loop, and not opened again: what follows by itself is refused."""
        self.backend: Backend | None = None
        self.engine: Engine | None = None
        self.plain: Batcher[Submission, Inserted] | None = None
        self.entered = 0
        """`async with` blocks that are open."""
        self.opening = asyncio.Lock()
        self.starting = asyncio.Lock()
        self.stopping = False
        self.closed = asyncio.Event()
        self.failure: EngineFailed | None = None
        self.failed = asyncio.Event()
        self.waiters = Waiters()
        self.subscribing: set[asyncio.Event] = set()
        self.subscriptions: set[asyncio.Task[None]] = set()
        self.draining: Position | None = None

    @property
    def store_and_bus(self) -> Backend:
        """For whoever runs after it was opened; NotRunning once it was stopped."""
        if self.backend is None:
            raise NotRunning("the queue was stopped: open it or start it again")
        return self.backend

    @property
    def is_running(self) -> bool:
        """Whether workers run in this loop."""
        return self.engine is not None and self.failure is None and not self.loop.is_closed()
