"""Opening, starting and stopping a queue.

Promises: opened when first needed, so that a producer just enqueues; `start` runs workers in this
process; `stop` refuses new work with a typed error, then drains. Both may be called twice.
"""

from __future__ import annotations

import asyncio
import os
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Self

from holdfast.core.schedule import Schedule
from holdfast.core.submit import Submission
from holdfast.core.task import ENDED, Task
from holdfast.engine.engine import Engine, EngineConfig
from holdfast.engine.handlers import Handlers
from holdfast.errors import EngineFailed, NotRunning, QueueStopping
from holdfast.queue.backend import Backend
from holdfast.queue.settings import Settings
from holdfast.queue.waiters import Waiters


class Lifecycle(ABC):
    """State that all parts of a queue share."""

    def __init__(self, backend: Callable[[], Backend], settings: Settings) -> None:
        self._make_backend = backend
        self._backend: Backend | None = None
        self._settings = settings
        self._handlers = Handlers()
        self._schedules: list[Schedule] = []
        self._stopping = False
        self._stopped = False
        self._reset()

    def _reset(self) -> None:
        """What belongs to one run, in one event loop."""
        self._opening = asyncio.Lock()
        self._engine: Engine | None = None
        self._failure: EngineFailed | None = None
        self._failed = asyncio.Event()
        self._closed = asyncio.Event()
        self._waiters = Waiters()
        self._subscribing: set[asyncio.Event] = set()

    @property
    def settings(self) -> Settings:
        return self._settings

    def is_running(self) -> bool:
        """Whether workers run in this process."""
        return self._engine is not None and self._failure is None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @property
    def _ready(self) -> Backend | None:
        """The store when nothing is to be waited for: what `open` would answer at once."""
        return None if self._subscribing else self._backend

    async def open(self) -> Backend:
        """Connects to the store without starting workers; done by itself when first needed."""
        backend = await self._connect()
        if self._subscribing:
            # A subscription made before this call must see what this call does.
            await asyncio.gather(*(started.wait() for started in list(self._subscribing)))
        return backend

    async def _connect(self) -> Backend:
        if self._backend is not None:
            return self._backend
        if self._stopped:
            raise NotRunning("the queue was stopped: start it again, or make a new one")
        async with self._opening:
            if self._backend is None:
                backend = self._make_backend()
                await backend.store.open()
                await backend.bus.start()
                self._waiters.attach(backend)
                self._backend = backend
        return self._backend

    async def start(self, **settings: Any) -> None:
        """Runs workers in this process. Settings given here replace those of the constructor."""
        if self._engine is not None:
            return
        self._settings = self._settings.changed(settings)
        self._stopping = self._stopped = False
        backend = await self.open()
        engine = Engine(
            self._engine_config(backend),
            clock=backend.clock,
            store=backend.store,
            bus=backend.bus,
            handlers=self._handlers,
            make_scheduled=self._scheduled,
            on_ended=self._ended,
            on_failed=self._escalated,
        )
        for schedule in self._schedules:
            await self._put_schedule(backend, schedule)
        await self._run_engine(engine)
        self._engine = engine

    async def _run_engine(self, engine: Engine) -> None:
        await engine.start()

    async def stop(self) -> None:
        """Takes no new work, lets running tasks end, gives the rest back, closes the store. Whoever
        calls it while it is under way waits for its end."""
        if self._backend is None:
            return
        closed = self._closed
        if self._stopping:
            await closed.wait()
            return
        self._stopping = True
        try:
            await self._stop(self._backend)
        finally:
            closed.set()

    async def _stop(self, backend: Backend) -> None:
        if self._engine is not None:
            await self._engine.stop()
        await self._waiters.close()
        await self._before_close()
        await backend.bus.stop()
        await backend.store.close()
        self._backend = None
        self._stopped = True
        self._reset()

    def hurry(self) -> None:
        """While `stop` waits for running tasks: cancels them and gives them back, unpunished."""
        if self._engine is not None:
            self._engine.hurry()

    async def wait_failed(self) -> EngineFailed:
        """Until the engine has given up, if ever; a process that only runs workers ends then."""
        await self._failed.wait()
        assert self._failure is not None
        return self._failure

    def _check_open(self) -> None:
        if self._stopping:
            raise QueueStopping(
                "the queue is stopping and takes no new work: send it elsewhere or later"
            )

    def _engine_config(self, backend: Backend) -> EngineConfig:
        s = self._settings
        host = backend.host or f"{socket.gethostname()}:{os.getpid()}"
        return EngineConfig(
            node=f"{host}:{backend.ids.token()}",
            min_workers=s.min_workers,
            max_workers=s.max_workers,
            lease_seconds=s.lease_seconds,
            task_timeout=s.task_timeout,
            shutdown_timeout=s.shutdown_timeout,
            ageing_seconds=s.ageing_seconds,
            queues=s.queues,
            retention=s.retention,
            defaults=s.defaults,
        )

    @abstractmethod
    async def _put_schedule(self, backend: Backend, schedule: Schedule) -> None:
        """Makes a schedule known to the store."""

    @abstractmethod
    async def _before_close(self) -> None:
        """Lets go of what a part holds of the store."""

    @abstractmethod
    def _scheduled(self, schedule: Schedule, now: float) -> Submission:
        """The task of a schedule that is due."""

    def _ended(self, tasks: list[Task]) -> None:
        if self._waiters.is_anybody:
            for task in tasks:
                if task.status in ENDED:
                    self._waiters.ended(task)

    def _escalated(self, failure: EngineFailed) -> None:
        self._failure = failure
        self._failed.set()
