"""Opens, starts and stops a queue.

Promises: `start` runs workers in this process. `stop` refuses new work with a typed error, then drains. Both
may be called twice, and a queue may be opened or started again after a stop, any number of times. Workers run
in one event loop at a time.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, TypeAlias

from msgspec.structs import replace

from holdfast.core.check import check_whole
from holdfast.core.schedule import Schedule
from holdfast.engine.basis import Basis, EngineConfig
from holdfast.engine.compose import compose
from holdfast.engine.engine import Engine
from holdfast.engine.follow_ups import FollowUps
from holdfast.engine.handlers import Handler
from holdfast.engine.worker_hooks import StartedHooks
from holdfast.errors import Conflict, EngineFailed
from holdfast.metrics import Meter
from holdfast.queue.define import Definitions, TypeOptions
from holdfast.queue.feed import Feed
from holdfast.queue.schedules import Schedules, put_schedule
from holdfast.queue.session import Resources, Session, Sessions
from holdfast.queue.settings import WORKERS_MAX, Settings, SettingsInForce

StartEngine: TypeAlias = Callable[[Engine], Awaitable[None]]
"""Starts an engine. A test may pass a function that steps the loops instead."""
START_ENGINE: Final[StartEngine] = Engine.start


class Runtime:
    """Runs workers in this process, and closes the session of a loop."""

    def __init__(
        self,
        sessions: Sessions,
        settings: SettingsInForce,
        definitions: Definitions,
        schedules: Schedules,
        feed: Feed,
        *,
        follow_ups: FollowUps,
        start_engine: StartEngine = START_ENGINE,
    ) -> None:
        self.start_engine = start_engine
        self._sessions = sessions
        self._settings = settings
        self._definitions = definitions
        self._schedules = schedules
        self._feed = feed
        self._follow_ups = follow_ups
        self.meter: Meter | None = None
        self._hooks = StartedHooks()

    def define(self, handler: Handler, options: TypeOptions) -> None:
        """Adds a handler. Running workers announce it to the other nodes."""
        self._definitions.add(handler, options)
        self._sessions.call_engine(lambda engine: engine.announce_soon())

    async def open(self) -> Resources:
        """Connects to the store without starting workers, also after a stop."""
        self._sessions.here.is_stopped = False
        return await self._sessions.open()

    async def start(self, settings: dict[str, Any]) -> None:
        """Starts workers in this loop. Raises Conflict if workers already run with other settings."""
        session = self._sessions.here
        if session.engine is not None and not session.stopping:
            self._check_in_force(settings)
            return
        async with session.starting:
            session = self._sessions.here  # A stop that was in progress has replaced it.
            if session.engine is not None:
                self._check_in_force(settings)
                return
            self._sessions.refuse_elsewhere("start and stop them there")
            self._settings.current = self._settings.current.changed(settings)
            resources = await self.open()
            session.started(await self._started(session, resources))

    async def stop(self) -> None:
        """Stops the workers of this loop and closes its session. A second caller waits for the first stop.
        Other event loops are not affected."""
        ended = self._sessions.drop_ended()
        session = self._sessions.here
        if session.stopping:
            await session.closed.wait()
            return
        async with session.starting:
            if session.resources is None:
                # In an open session, `_stop` closes the store after the engine has drained.
                await _close_stores(ended)
                self._sessions.refuse_elsewhere("stop them there")
                return
            if self._sessions.is_current(session) and not session.stopping:
                session.stopping = True
                try:
                    await self._stop(session, session.resources)
                finally:
                    session.closed.set()

    async def enter(self) -> None:
        """Enters an `async with` block, which starts the queue."""
        session = self._sessions.here
        session.entered += 1
        try:
            await self.start({})
        except BaseException:
            session.entered -= 1
            raise

    async def leave(self) -> None:
        """Leaves an `async with` block. The last one stops the queue."""
        session = self._sessions.here
        session.entered = max(0, session.entered - 1)
        if not session.entered:
            await self.stop()
            if session.producers:
                await self.open()

    async def enter_producer(self) -> None:
        """Enters a `producer()` block, which opens the queue without workers."""
        session = self._sessions.here
        session.producers += 1
        try:
            await self.open()
        except BaseException:
            session.producers -= 1
            raise

    async def leave_producer(self) -> None:
        """Leaves a `producer()` block. The last one closes the connection of this loop, unless workers run
        in it."""
        session = self._sessions.here
        session.producers = max(0, session.producers - 1)
        if not session.producers and session.engine is None:
            await self.close()

    async def close(self) -> None:
        """Closes the session of this loop, if it is open."""
        if self._sessions.here.resources is not None:
            await self.stop()

    def hurry(self) -> None:
        """Cancels the running tasks that `stop` waits for. They return to the queue and lose no attempt."""
        self._sessions.call_engine(lambda engine: engine.hurry())

    async def wait_failed(self) -> EngineFailed:
        """Waits until the engine has failed permanently, and returns the error."""
        session = self._sessions.here
        await session.failed.wait()
        assert session.failure is not None
        return session.failure

    async def scale_workers(self, count: int) -> int:
        """Adds workers, or removes some if `count` is negative. Returns the new number."""
        check_whole("count", count, least=-WORKERS_MAX, most=WORKERS_MAX)
        return self._sessions.engine_here().resize(count)

    def _check_in_force(self, settings: dict[str, Any]) -> None:
        """Raises Conflict if a setting differs from the one in force: a running engine cannot take it."""
        current = self._settings.current
        requested = current.changed(settings)
        others = sorted(n for n in settings if getattr(requested, n) != getattr(current, n))
        if others:
            raise Conflict(
                f"the queue is already running with another {', '.join(others)}: stop it first, or change "
                "the number of workers with scale_workers"
            )

    async def _started(self, session: Session, resources: Resources) -> Engine:
        self._hooks = await self._definitions.hooks.start()
        try:
            return await self._composed(session, resources)
        except BaseException:
            await self._hooks.stop()
            raise

    async def _composed(self, session: Session, resources: Resources) -> Engine:
        engine = compose(
            Basis(
                config=_engine_config(resources, self._settings.current),
                clock=resources.clock,
                store=resources.store,
                bus=resources.bus,
                handlers=self._definitions.handlers,
                make_scheduled=self._schedules.submission,
                on_ended=session.ended,
                on_failed=session.fail,
                meter=self.meter,
                code_schedules=self._code_schedules,
                follow_ups=self._follow_ups,
                state=self._hooks.state,
            )
        )
        for schedule in self._code_schedules():
            await put_schedule(resources, schedule)
        try:
            await self.start_engine(engine)
        except BaseException:
            await engine.stop()
            raise
        return engine

    def _code_schedules(self) -> list[Schedule]:
        """The schedules of the code. Their tasks belong to the project of the queue."""
        project = self._settings.current.project
        return [replace(schedule, project=project) for schedule in self._definitions.schedules]

    async def _stop(self, session: Session, resources: Resources) -> None:
        try:
            if session.engine is not None:
                await session.engine.stop()
                await self._hooks.stop()
            await session.waiters.close()
            await self._feed.drain(session, resources)
        finally:
            self._sessions.replace(session)
            try:
                await resources.bus.stop()
            finally:
                await resources.store.close()


async def _close_stores(sessions: Iterable[Session]) -> None:
    """Closes the stores of loops that ended without a stop. A store that another loop uses stays open."""
    for session in sessions:
        if session.resources is not None:
            await session.resources.store.close()


def _engine_config(resources: Resources, settings: Settings) -> EngineConfig:
    host = resources.host or f"{socket.gethostname()}:{os.getpid()}"
    return EngineConfig(
        node=f"{host}:{resources.ids.token()}",
        min_workers=settings.min_workers,
        max_workers=settings.max_workers,
        lease_seconds=settings.lease_seconds,
        task_timeout=settings.task_timeout,
        decision_deadline=settings.decision_deadline,
        shutdown_timeout=settings.shutdown_timeout,
        ageing_seconds=settings.ageing_seconds,
        queues=settings.queues,
        projects=None if settings.projects is None else tuple(settings.projects),
        retention=settings.retention,
        defaults=settings.defaults,
    )
