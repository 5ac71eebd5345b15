"""Opening, starting and stopping a queue.

Promises: opened when first needed, so that a producer just enqueues; `start` runs workers in this
process; `stop` refuses new work with a typed error, then drains. Both may be called twice, and a queue may
be opened or started again after a stop, any number of times.

A queue may be used from several event loops, one after another or at once: each has its own session
(`session.py`), opened by its first use and closed by its own `stop`; one that ends without is dropped.
Workers run in one loop at a time. A forked child has no session: it opens its own, and runs no workers.
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
from holdfast.engine.boot import refuse_second_run
from holdfast.engine.engine import Engine, EngineConfig
from holdfast.engine.handlers import Handlers
from holdfast.errors import Conflict, EngineFailed, NotRunning, QueueStopping, WrongLoop
from holdfast.forks import PassiveFollower, follow
from holdfast.metrics import Meter
from holdfast.queue.backend import Backend
from holdfast.queue.session import Session
from holdfast.queue.settings import Settings


class Lifecycle(PassiveFollower, ABC):
    """State that all parts of a queue share."""

    def __init__(
        self, backend: Callable[[], Backend], settings: Settings, meter: Meter | None = None
    ) -> None:
        self._make_backend = backend
        self._settings = settings
        self._meter = meter
        self._handlers = Handlers()
        self._schedules: list[Schedule] = []
        self._sessions: dict[asyncio.AbstractEventLoop, Session] = {}
        self._inherited: list[Session] = []
        """Of the process that this one was forked from: kept, so that nothing of theirs unwinds here."""
        follow(self)

    def start_over(self) -> None:
        """In a forked child."""
        self._inherited += self._sessions.values()
        self._sessions = {}

    @property
    def settings(self) -> Settings:
        return self._settings

    def is_running(self) -> bool:
        """Whether workers run in this process."""
        return any(session.is_running for session in list(self._sessions.values()))

    async def __aenter__(self) -> Self:
        session = self._here
        session.entered += 1
        try:
            await self.start()
        except BaseException:
            session.entered -= 1
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        session = self._here
        session.entered = max(0, session.entered - 1)
        if not session.entered:
            await self.stop()

    # -- sessions ----------------------------------------------------------------------------------

    @property
    def _here(self) -> Session:
        """The session of the running event loop."""
        loop = asyncio.get_running_loop()
        session = self._sessions.get(loop)
        if session is None:
            self._drop_ended()
            session = self._sessions[loop] = Session(loop)
        return session

    def _drop_ended(self) -> list[Session]:
        """Those whose event loop has ended: nothing of theirs can be awaited any more."""
        found = [each for each in list(self._sessions.values()) if each.loop.is_closed()]
        for session in found:
            self._sessions.pop(session.loop, None)
        return found

    @property
    def _ready(self) -> Session | None:
        """The session when nothing is to be waited for: `open` would answer at once."""
        session = self._sessions.get(asyncio.get_running_loop())
        if session is None or session.backend is None or session.subscribing:
            return None
        return session

    @property
    def _backend(self) -> Backend | None:
        """The store and the bus of the running event loop, if it has them open."""
        return self._here.backend

    @property
    def _engine(self) -> Engine | None:
        """The engine of this process, in whichever loop it runs."""
        for session in list(self._sessions.values()):
            if session.engine is not None and not session.loop.is_closed():
                return session.engine
        return None

    def _engine_here(self) -> Engine:
        """The engine of this loop; a typed error says where it is if not here."""
        engine = self._here.engine
        if engine is None:
            self._refuse_elsewhere("change them there")
            raise NotRunning("no workers run in this process: start the queue first")
        return engine

    def _tell_engine(self, tell: Callable[[Engine], None]) -> None:
        """Calls back with the engine, if there is one, in the thread of its loop."""
        for session in list(self._sessions.values()):
            if session.engine is None or session.loop.is_closed():
                continue
            if session.loop is _running_loop():
                tell(session.engine)
            else:
                session.loop.call_soon_threadsafe(tell, session.engine)

    def _refuse_elsewhere(self, what_to_do: str) -> None:
        if self.is_running():
            raise WrongLoop(
                f"the workers of this queue run in another event loop of this process: {what_to_do}, or "
                "make a TaskQueue for each loop that runs workers"
            )

    # -- open, start, stop -------------------------------------------------------------------------

    async def open(self) -> Backend:
        """Connects to the store without starting workers; done by itself when first needed. After a
        `stop` it has to be asked for."""
        self._here.is_stopped = False
        return await self._open()

    async def _open(self) -> Backend:
        """For whatever needs the store."""
        session = self._here
        backend = await self._connect()
        if session.subscribing:
            # A subscription made before this call must see what this call does.
            await asyncio.gather(*(started.wait() for started in list(session.subscribing)))
        return backend

    async def _session(self) -> Session:
        """The session of this loop, open."""
        await self._open()
        return self._here

    async def _connect(self) -> Backend:
        session = self._here
        if session.backend is not None:
            return session.backend
        if session.is_stopped:
            raise NotRunning("the queue was stopped: open it or start it again")
        async with session.opening:
            if session.backend is None:
                refuse_second_run()
                backend = self._make_backend()
                await backend.store.open()
                try:
                    await backend.bus.start()
                except BaseException:
                    await backend.store.close()
                    raise
                session.waiters.attach(backend)
                session.backend = backend
        return session.backend

    async def start(self, **settings: Any) -> None:
        """Runs workers in this process. Settings given here replace those of the constructor; Conflict when
        workers run already with others."""
        session = self._here
        if session.engine is not None and not session.stopping:
            self._check_in_force(settings)
            return
        async with session.starting:
            session = self._here  # A stop that was under way has left another.
            if session.engine is not None:
                self._check_in_force(settings)
                return
            self._refuse_elsewhere("start and stop them there")
            self._settings = self._settings.changed(settings)
            backend = await self.open()
            session.engine = await self._started(backend)

    def _check_in_force(self, settings: dict[str, Any]) -> None:
        """Settings that a start cannot put into force any more are refused, not dropped."""
        wanted = self._settings.changed(settings)
        others = sorted(n for n in settings if getattr(wanted, n) != getattr(self._settings, n))
        if others:
            raise Conflict(
                f"the queue is already running with another {', '.join(others)}: stop it first, or change "
                "the number of workers with scale_workers"
            )

    async def _started(self, backend: Backend) -> Engine:
        engine = Engine(
            self._engine_config(backend),
            clock=backend.clock,
            store=backend.store,
            bus=backend.bus,
            handlers=self._handlers,
            make_scheduled=self._scheduled,
            on_ended=self._ended,
            on_failed=self._escalated,
            meter=self._meter,
            code_schedules=lambda: self._schedules,
        )
        for schedule in self._schedules:
            await self._put_schedule(backend, schedule)
        try:
            await self._run_engine(engine)
        except BaseException:
            await engine.stop()
            raise
        return engine

    async def _run_engine(self, engine: Engine) -> None:
        await engine.start()

    async def stop(self) -> None:
        """Takes no new work, lets running tasks end, gives the rest back, closes the store. Whoever
        calls it while it is under way waits for its end. Other event loops go on."""
        for ended in self._drop_ended():
            if ended.backend is not None:
                await ended.backend.store.close()
        session = self._here
        if session.stopping:
            await session.closed.wait()
            return
        async with session.starting:
            if session.backend is None:
                self._refuse_elsewhere("stop them there")
                return
            if self._sessions.get(session.loop) is session and not session.stopping:
                session.stopping = True
                try:
                    await self._stop(session, session.backend)
                finally:
                    session.closed.set()

    async def _stop(self, session: Session, backend: Backend) -> None:
        try:
            if session.engine is not None:
                await session.engine.stop()
            await session.waiters.close()
            await self._before_close(session, backend)
        finally:
            self._sessions[session.loop] = Session(session.loop, is_stopped=True)
            try:
                await backend.bus.stop()
            finally:
                await backend.store.close()

    def hurry(self) -> None:
        """While `stop` waits for running tasks: cancels them and gives them back, unpunished."""
        self._tell_engine(lambda engine: engine.hurry())

    async def wait_failed(self) -> EngineFailed:
        """Until the engine has given up, if ever; a process that only runs workers ends then."""
        session = self._here
        await session.failed.wait()
        assert session.failure is not None
        return session.failure

    def _check_open(self) -> None:
        if self._here.stopping:
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
    async def _before_close(self, session: Session, backend: Backend) -> None:
        """Lets go of what a part holds of the store."""

    @abstractmethod
    async def _scheduled(self, schedule: Schedule, now: float) -> Submission:
        """The task of a schedule that is due."""

    def _ended(self, tasks: list[Task]) -> None:
        waiters = self._here.waiters
        if waiters.has_waiters:
            for task in tasks:
                if task.status in ENDED:
                    waiters.ended(task)

    def _escalated(self, failure: EngineFailed) -> None:
        session = self._here
        session.failure = failure
        session.failed.set()


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
