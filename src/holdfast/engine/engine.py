"""The engine of one process: holds its parts, and starts and stops them in order.

Promises: `stop` claims no new tasks, waits for running handlers up to a limit, gives the other tasks back
without spending an attempt, and commits all outcomes if the store answers. It does not wait for handlers that
were given up. A second `stop` has no effect.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from holdfast.bus.port import FEED, WORK, is_of_children, is_of_one, of_node
from holdfast.clock import SystemClock
from holdfast.core.command import Instruction
from holdfast.engine.basis import Basis, EngineConfig
from holdfast.engine.completer import Completer
from holdfast.engine.context_services import ContextServices
from holdfast.engine.direct_start import DirectStart
from holdfast.engine.dispatcher import Dispatcher
from holdfast.engine.drain import Drain
from holdfast.engine.execute import Executor
from holdfast.engine.handlers import Isolation
from holdfast.engine.heartbeat import Heartbeat
from holdfast.engine.lease_keeper import KeptRuns, StoreKeeper
from holdfast.engine.loop import Loop
from holdfast.engine.meters import Counts, EngineFigures, Measures
from holdfast.engine.owned_runs import OwnedRuns
from holdfast.engine.pool import WorkerPool
from holdfast.engine.runner import TaskRunner
from holdfast.engine.scheduler import Scheduler
from holdfast.engine.supervisor import Supervisor
from holdfast.engine.sweeper import Sweeper
from holdfast.engine.watchdog import Watchdog
from holdfast.errors import StoreUnavailable
from holdfast.store.store import Store, is_held

SKIPPED_MAX: Final = 20


@dataclass(eq=False, kw_only=True)
class Engine:
    """The parts of an engine, as `compose.py` builds them."""

    basis: Basis
    loop_store: Store
    """With connections that are reserved for the loops."""
    runner_store: Store
    """With connections that are reserved for running handlers."""
    supervisor: Supervisor
    measures: Measures

    # From claim to outcome.
    dispatcher: Dispatcher
    direct_start: DirectStart | None
    """None on a store with many writers."""
    pool: WorkerPool
    runs: OwnedRuns
    runner: TaskRunner
    executor: Executor
    services: ContextServices
    completer: Completer

    # Upkeep.
    heartbeat: Heartbeat
    sweeper: Sweeper
    scheduler: Scheduler
    watchdog: Watchdog | None = None
    """Only in a started engine with a real clock."""

    def __post_init__(self) -> None:
        self._clock = self.basis.clock
        self._bus = self.basis.bus
        self._handlers = self.basis.handlers
        self._unsubscribe: Callable[[], None] = lambda: None
        self._stopped = False
        self._drain = Drain(
            clock=self._clock,
            supervisor=self.supervisor,
            dispatcher=self.dispatcher,
            pool=self.pool,
            runs=self.runs,
            completer=self.completer,
            give_back=self._give_back,
            shutdown_timeout=self.config.shutdown_timeout,
        )

    @property
    def config(self) -> EngineConfig:
        return self.basis.config

    @property
    def loops(self) -> tuple[Loop, ...]:
        return (self.completer, self.dispatcher, self.heartbeat, self.sweeper, self.scheduler)

    async def prepare(self) -> None:
        """Announces the node and starts its workers, but no loop."""
        self._on_cut_short(self.sweeper.wake)
        await self.heartbeat.tick()
        await self.dispatcher.warm_up()
        self.pool.start()
        self._unsubscribe = self._bus.subscribe(self._hinted, WORK, of_node(self.config.node))

    async def start(self) -> None:
        await self.prepare()
        for loop in self.loops:
            self.supervisor.start(loop.name, loop.run)
        self.supervisor.start("scaler", self._drain.scale)
        if isinstance(self._clock, SystemClock):
            # With a virtual clock nothing blocks, and no other thread may run.
            self.watchdog = Watchdog(
                *(self._clock, self.runs.task_of, self._keeper()),
                lease_seconds=self.config.lease_seconds,
                on_kept=self.heartbeat.wake,
            )
            self.watchdog.start()

    def _keeper(self) -> StoreKeeper:
        config = self.config
        runs = KeptRuns(
            self.runs.held,
            lease_seconds=config.lease_seconds,
            default_timeout=config.task_timeout,
        )
        return StoreKeeper(
            *(self.loop_store, runs, lambda: self.heartbeat.described),
            node=config.node,
            lease_seconds=config.lease_seconds,
        )

    def runs_elsewhere(self, task_type: str) -> bool:
        """Whether the type's handler runs in a thread or a process, not in the event loop."""
        handler = self._handlers.get(task_type)
        return handler is not None and handler.isolation is not Isolation.LOOP

    def announce_soon(self) -> None:
        """Call this after a handler was registered in a running engine."""
        self.heartbeat.wake()
        self.dispatcher.wake()
        self.scheduler.wake()

    async def stop(self) -> None:
        if self._stopped:
            return
        self._stopped = True
        await self._drain.run(self._claimed_last)
        if self.watchdog is not None:
            await self.watchdog.stop()
        await self.supervisor.stop()
        await self.executor.close()
        try:
            await self.heartbeat.release_unknown()
            await self.loop_store.upkeep.leave(self.config.node)
            self._bus.publish(WORK)  # Tasks that preferred this node are open to all.
            self._bus.publish(FEED)
        except StoreUnavailable:
            return

    def _claimed_last(self) -> None:
        self._unsubscribe()
        self._on_cut_short(lambda: None)

    def resize(self, by: int) -> int:
        """Adds or removes workers. Returns the new number."""
        workers = self.pool.resize(by)
        self.dispatcher.wake()
        return workers

    def hurry(self) -> None:
        """Ends the waiting of a `stop` in progress: running handlers are cancelled, their tasks are given
        back, and outcomes get at most `FLUSH_SECONDS`."""
        self._drain.hurry()

    async def _give_back(self, instructions: Sequence[Instruction]) -> None:
        """Tasks that another transaction holds are waited for, after the others."""
        answers = await self.loop_store.apply(instructions, wait=False)
        if held := [
            instruction
            for instruction, answer in zip(instructions, answers, strict=True)
            if is_held(answer)
        ]:
            await self.loop_store.apply(held)
        self._bus.publish(WORK)

    def _hinted(self, hint: str) -> None:
        if hint == of_node(self.config.node):
            self.heartbeat.wake()  # It claims what is reserved for this node.
            return
        if is_of_children(hint):
            self.sweeper.wake()
        self.dispatcher.hinted(one=is_of_one(hint))

    def _on_cut_short(self, listener: Callable[[], None]) -> None:
        for store in (self.basis.store, self.loop_store, self.runner_store):
            store.cascades.on_cut_short = listener

    def measure(self, counts: Counts) -> None:
        """Updates the gauges of the meter, if there is one."""
        self.measures.counted(counts)
        self.measures.worked(
            EngineFigures(
                workers=self.pool.workers,
                busy=self.pool.busy,
                restarts=self.supervisor.restarts,
                deaf=self.runs.deaf,
                abandoned=self.executor.abandoned_threads,
                leases_lost=self.heartbeat.lost,
                fenced=self.completer.fenced,
                blocks=0 if self.watchdog is None else self.watchdog.blocks,
                troubles=self.troubles,
                outages=sum(loop.outages_seen for loop in self.loops),
                expired={kind: self.sweeper.expired_by_kind[kind] for kind in ("engine", "node")},
            )
        )
        self.measures.hinted(self._bus)

    @property
    def troubles(self) -> int:
        """Unexpected errors that the loops survived since the start."""
        return sum([loop.troubles for loop in self.loops])

    def describe(self) -> dict[str, object]:
        """The description of this node for other processes."""
        return {
            "types": list(self._handlers.types()),
            "type_options": self.heartbeat.type_conflicts.options,
            "queues": list(self.dispatcher.queues),
            "projects": self.config.projects,
            "workers": self.pool.workers,
            "busy": self.pool.busy,
            "deaf_handlers": self.runs.deaf,
            "abandoned_threads": self.executor.abandoned_threads,
            "troubles": self.troubles,
            "blocks": 0 if self.watchdog is None else self.watchdog.blocks,
            "lease_seconds": self.config.lease_seconds,
            "hints": self._bus.mode().why,
            "skipped": dict(list(self.scheduler.skipped.items())[:SKIPPED_MAX]),
        }
