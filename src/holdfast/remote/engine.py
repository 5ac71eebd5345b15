"""The engine of a worker without a database: the same pool, runner, executors and completer, on a link.

Sweeper and scheduler run where the database is. Promises of a stop: those of `engine.drain`. Unacknowledged
outcomes are in memory only: a process that dies loses them with its runs, and the tasks run again.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass

from holdfast.clock import SystemClock
from holdfast.engine.basis import EngineConfig
from holdfast.engine.completer import Completer
from holdfast.engine.drain import Drain
from holdfast.engine.execute import Executor
from holdfast.engine.handlers import Handlers, Isolation
from holdfast.engine.lease_keeper import KeptRuns
from holdfast.engine.loop import Loop
from holdfast.engine.meters import EngineFigures, Measures
from holdfast.engine.owned_runs import OwnedRuns
from holdfast.engine.pool import WorkerPool
from holdfast.engine.runner import TaskRunner
from holdfast.engine.supervisor import Supervisor
from holdfast.engine.watchdog import Watchdog
from holdfast.remote.dispatcher import RemoteDispatcher
from holdfast.remote.heartbeat import RemoteHeartbeat
from holdfast.remote.lease_keeper import GatewayKeeper
from holdfast.remote.leases import Leases
from holdfast.remote.link import Link


@dataclass(eq=False, kw_only=True)
class RemoteEngine:
    """The parts of a remote engine, as `compose.py` builds them."""

    config: EngineConfig
    handlers: Handlers
    link: Link
    supervisor: Supervisor
    executor: Executor
    completer: Completer
    runner: TaskRunner
    runs: OwnedRuns
    pool: WorkerPool
    leases: Leases
    dispatcher: RemoteDispatcher
    heartbeat: RemoteHeartbeat
    drain: Drain
    measures: Measures
    tls: ssl.SSLContext | None = None
    """For HTTPS, in place of the default."""
    watchdog: Watchdog | None = None

    @property
    def loops(self) -> tuple[Loop, ...]:
        return (self.completer, self.dispatcher, self.heartbeat, self.leases)

    @property
    def troubles(self) -> int:
        """Unexpected errors that the loops survived since the start."""
        return sum(loop.troubles for loop in self.loops)

    async def start(self) -> None:
        """Connects and starts. Raises why no gateway accepts this worker."""
        await self.link.open()
        self.pool.start()
        self.supervisor.start("link", self.link.run)
        for loop in self.loops:
            self.supervisor.start(loop.name, loop.run)
        self.supervisor.start("scaler", self.drain.scale)
        clock = self.leases.clock
        if isinstance(clock, SystemClock):
            self.watchdog = Watchdog(
                *(clock, self.runs.task_of, self._keeper()),
                lease_seconds=self.config.lease_seconds,
                on_kept=self.heartbeat.wake,
            )
            self.watchdog.start()

    def _keeper(self) -> GatewayKeeper:
        config = self.config
        runs = KeptRuns(
            self.runs.held,
            lease_seconds=config.lease_seconds,
            default_timeout=config.task_timeout,
        )
        return GatewayKeeper(
            *(self.leases.clock, runs, self.leases, self.link.greeting),
            slots=config.max_workers,
            lease_seconds=config.lease_seconds,
            tls=self.tls,
        )

    async def stop(self) -> None:
        """Ends the work and says goodbye."""
        await self.drain.run()
        if self.watchdog is not None:
            await self.watchdog.stop()
        await self.link.close()
        await self.supervisor.stop()
        await self.executor.close()

    def measure(self) -> None:
        """Updates the gauges of the meter, if there is one."""
        self.measures.worked(
            EngineFigures(
                workers=self.pool.workers,
                busy=self.pool.busy,
                restarts=self.supervisor.restarts,
                deaf=self.runs.deaf,
                abandoned=self.executor.abandoned_threads,
                leases_lost=self.heartbeat.lost + self.leases.ended,
                fenced=self.completer.fenced,
                blocks=0 if self.watchdog is None else self.watchdog.blocks,
                troubles=self.troubles,
                outages=sum(loop.outages_seen for loop in self.loops),
            )
        )

    def hurry(self) -> None:
        self.drain.hurry()

    def resize(self, by: int) -> int:
        """Adds or removes workers. Returns the new number."""
        workers = self.pool.resize(by)
        self.dispatcher.wake()
        return workers

    def announce_soon(self) -> None:
        """Call this after a handler was registered in a running engine."""
        self.heartbeat.wake()
        self.dispatcher.wake()

    def refused_types(self) -> frozenset[str]:
        """Types whose handlers run in threads, while too many threads do not return."""
        if self.executor.has_threads:
            return frozenset()
        return frozenset(h.type for h in self.handlers if h.isolation is Isolation.THREAD)
