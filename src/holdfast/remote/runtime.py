"""Opens, starts and stops a queue behind a gateway. The same calls as `queue.runtime.Runtime`.

Promises: `start` runs workers in this process; `stop` refuses new work with a typed error, then drains. Both
may be called twice, and a queue may be started again after a stop. Workers run in one event loop at a time.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable
from typing import Any

import msgspec

from holdfast.client.calls import path_of
from holdfast.client.http import Http
from holdfast.core.check import check_whole
from holdfast.core.task import ENDED, Task
from holdfast.engine.basis import EngineConfig
from holdfast.engine.boot import refuse_second_run
from holdfast.engine.follow_ups import NO_FOLLOW_UPS
from holdfast.engine.handlers import Handler
from holdfast.engine.worker_hooks import StartedHooks
from holdfast.errors import BadConfig, Conflict, EngineFailed, NotFound, NotRunning, WrongLoop
from holdfast.metrics import Meter
from holdfast.queue.define import Definitions, TypeOptions
from holdfast.queue.settings import WORKERS_MAX, Settings, SettingsInForce
from holdfast.queue.views import time_of
from holdfast.remote.compose import RemoteBasis, compose_remote
from holdfast.remote.engine import RemoteEngine
from holdfast.remote.gateways import Gateways
from holdfast.remote.waiters import RemoteWaiters
from holdfast.remote.wires import Wires

log = logging.getLogger("holdfast.worker")


class RemoteRuntime:
    """Runs workers in this process."""

    def __init__(
        self,
        gateways: Gateways,
        http: Http,
        settings: SettingsInForce,
        definitions: Definitions,
        *,
        wires: Wires | None = None,
    ) -> None:
        self._gateways = gateways
        self._wires = wires or Wires()
        self._http = http
        self._settings = settings
        self._definitions = definitions
        self.meter: Meter | None = None
        self._waiters: dict[asyncio.AbstractEventLoop, RemoteWaiters] = {}
        self._starting: asyncio.Lock | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._entered = 0
        self._producers: dict[asyncio.AbstractEventLoop, int] = {}
        self._failed: asyncio.Event | None = None
        self._failure: EngineFailed | None = None
        self.engine: RemoteEngine | None = None
        self.keep_credential: Callable[[str], None] | None = None
        """Called with the credential of the node that a join token has made."""
        self.follow_ups = NO_FOLLOW_UPS
        """How handlers enqueue; set by `RemoteParts`."""
        self.is_stopping = False
        self._hooks = StartedHooks()
        self.readers: set[asyncio.Task[None]] = set()
        """Event handlers that run."""

    def is_running(self) -> bool:
        """Whether workers run in this process."""
        return self.engine is not None and self._failure is None

    def waiters(self) -> RemoteWaiters:
        """The waiting callers of this event loop."""
        loop = asyncio.get_running_loop()
        if loop not in self._waiters:
            self._waiters = {
                one: kept for one, kept in self._waiters.items() if not one.is_closed()
            }
            self._waiters[loop] = RemoteWaiters(self._http)
        return self._waiters[loop]

    def define(self, handler: Handler, options: TypeOptions) -> None:
        """Adds a handler. Running workers announce it to the gateway."""
        self._definitions.add(handler, options)
        if self.engine is not None and self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.engine.announce_soon)

    async def open(self) -> None:
        """Checks that a gateway answers and accepts the token."""
        refuse_second_run()
        try:
            who = (await self._http.call("GET", path_of("whoami"))).body
        except NotFound:
            who = None
        if not isinstance(who, dict) or "roles" not in who:
            raise BadConfig(
                f"the server at {self._gateways.urls[0]} is not a gateway of Holdfast: check the address and "
                "the port"
            )

    async def now(self) -> float:
        """The time of the store."""
        about = (await self._http.call("GET", path_of("about"))).body
        return time_of(about["now"]) or 0.0

    async def start(self, settings: dict[str, Any]) -> None:
        """Starts workers in this loop. Raises Conflict if workers already run with other settings."""
        refuse_second_run()
        self._check_loop("start and stop them there")
        self._starting = self._starting or asyncio.Lock()
        async with self._starting:
            if self.engine is not None:
                if self._settings.current.changed(settings) != self._settings.current:
                    raise Conflict(
                        "the queue is already running with other settings: stop it first"
                    )
                return
            self._settings.current = self._settings.current.changed(settings)
            self._failed, self._failure = asyncio.Event(), None
            self._hooks = await self._definitions.hooks.start()
            engine = compose_remote(self._basis())
            try:
                await engine.start()
            except BaseException:
                await self._hooks.stop()
                raise
            self._loop, self.engine = asyncio.get_running_loop(), engine

    def _basis(self) -> RemoteBasis:
        return RemoteBasis(
            config=_engine_config(self._settings.current, self._wires.host),
            gateways=self._gateways,
            clock=self._http.clock,
            ids=self._http.ids,
            handlers=self._definitions.handlers,
            on_ended=self._ended,
            on_failed=self._fail,
            on_joined=self._joined,
            schedules=lambda: self._definitions.schedules,
            meter=self.meter,
            open_channel=self._wires.open_channel,
            follow_ups=self.follow_ups,
            state=self._hooks.state,
        )

    async def stop(self) -> None:
        """Stops the workers of this loop and closes its connections."""
        self._check_loop("stop them there")
        self._starting = self._starting or asyncio.Lock()
        async with self._starting:
            self.is_stopping = True
            try:
                engine = self.engine
                if engine is not None:
                    await engine.stop()
                    await self._hooks.stop()
                for reader in list(self.readers):
                    reader.cancel()
                await asyncio.gather(*self.readers, return_exceptions=True)
                await self.close()
            finally:
                self.engine, self._loop, self.is_stopping = None, None, False
                self._starting = None

    async def enter(self) -> None:
        """Enters an `async with` block, which starts the queue."""
        self._entered += 1
        try:
            await self.start({})
        except BaseException:
            self._entered -= 1
            raise

    async def leave(self) -> None:
        """Leaves an `async with` block. The last one stops the queue."""
        self._entered = max(0, self._entered - 1)
        if not self._entered:
            await self.stop()

    async def enter_producer(self) -> None:
        """Enters a `producer()` block, which checks that a gateway answers."""
        await self.open()
        loop = asyncio.get_running_loop()
        self._producers[loop] = self._producers.get(loop, 0) + 1

    async def leave_producer(self) -> None:
        """Leaves a `producer()` block. The last one closes the connections of this loop, unless workers run
        in it."""
        loop = asyncio.get_running_loop()
        left = self._producers.pop(loop, 1) - 1
        if left:
            self._producers[loop] = left
        elif self.engine is None or self._loop is not loop:
            await self.close()

    async def close(self) -> None:
        """Closes the connections of this event loop."""
        waiters = self._waiters.pop(asyncio.get_running_loop(), None)
        if waiters is not None:
            await waiters.close()
        await self._http.close()

    def hurry(self) -> None:
        """Cancels the running tasks that `stop` waits for."""
        if self.engine is not None and self._loop is not None:
            self._loop.call_soon_threadsafe(self.engine.hurry)

    async def wait_failed(self) -> EngineFailed:
        """Waits until the engine has failed permanently, and returns the error."""
        if self._failed is None:
            raise NotRunning("no workers run in this process: start the queue first")
        await self._failed.wait()
        assert self._failure is not None
        return self._failure

    async def scale_workers(self, count: int) -> int:
        """Adds workers, or removes some if `count` is negative. Returns the new number."""
        check_whole("count", count, least=-WORKERS_MAX, most=WORKERS_MAX)
        self._check_loop("change them there")
        if self.engine is None:
            raise NotRunning("no workers run in this process: start the queue first")
        return self.engine.resize(count)

    def _check_loop(self, what_to_do: str) -> None:
        if self._loop not in (None, asyncio.get_running_loop()):
            if self._loop is not None and self._loop.is_closed():
                self.engine = self._loop = self._starting = None
                return
            raise WrongLoop(
                f"the workers of this queue run in another event loop of this process: {what_to_do}"
            )

    def _ended(self, tasks: list[Task]) -> None:
        waiters = self._waiters.get(asyncio.get_running_loop())
        if waiters is not None:
            for task in tasks:
                if task.status in ENDED:
                    waiters.ended(task)

    def _joined(self, credential: str) -> None:
        """A join token registers only: from now on this process is the node."""
        self._http.token = credential
        self._gateways = msgspec.structs.replace(self._gateways, token=credential)
        if self.keep_credential is not None:
            self.keep_credential(credential)

    def _fail(self, failure: EngineFailed) -> None:
        log.error("%s", failure)
        self._failure = failure
        if self._failed is not None:
            self._failed.set()


def _engine_config(settings: Settings, host: str) -> EngineConfig:
    return EngineConfig(
        node=host or f"{socket.gethostname()}:{os.getpid()}",
        min_workers=settings.min_workers,
        max_workers=settings.max_workers,
        lease_seconds=settings.lease_seconds,
        task_timeout=settings.task_timeout,
        shutdown_timeout=settings.shutdown_timeout,
        queues=settings.queues,
        defaults=settings.defaults,
    )
