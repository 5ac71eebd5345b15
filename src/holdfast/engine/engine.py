"""The engine of one process: composes its loops, and starts and stops them in order.

Promises: `stop` claims no new tasks, waits for running handlers up to a limit, gives the other tasks back
without spending an attempt, and commits all outcomes if the store answers. It does not wait for handlers that
were given up. A second `stop` has no effect.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, repeat
from typing import Final, TypeVar

import msgspec

from holdfast.bus.port import FEED, WORK, Bus, is_of_children, is_of_one
from holdfast.clock import Clock, SystemClock
from holdfast.core.command import Instruction, Release
from holdfast.core.decide import Ruling, Transition, applied
from holdfast.core.ledger import EntryLease, EntryRequest, EntryVerdict, Outcome
from holdfast.core.priority import AGEING_SECONDS
from holdfast.core.schedule import Schedule
from holdfast.core.submit import Submission
from holdfast.core.task import QUEUED, Task
from holdfast.engine import meters
from holdfast.engine.completer import Completer
from holdfast.engine.direct_start import DirectStart
from holdfast.engine.dispatcher import Dispatcher
from holdfast.engine.execute import Executor
from holdfast.engine.handlers import Defaults, Handlers, Isolation
from holdfast.engine.heartbeat import Heartbeat
from holdfast.engine.loop import OUTAGE_SECONDS, Loop
from holdfast.engine.owned_runs import OwnedRuns
from holdfast.engine.pool import WorkerPool
from holdfast.engine.runner import Runner
from holdfast.engine.scheduler import Scheduler
from holdfast.engine.supervisor import Supervisor
from holdfast.engine.sweeper import Retention, Sweeper
from holdfast.engine.watchdog import Watchdog
from holdfast.errors import EngineFailed, LeaseLost, StoreUnavailable
from holdfast.metrics import Meter
from holdfast.store.ledger import EntryStore
from holdfast.store.port import Rank
from holdfast.store.store import Store, is_held

T = TypeVar("T")
UNWIND_SECONDS: Final = 2.0
"""Time for cancelled handlers to clean up during a stop."""
FLUSH_SECONDS: Final = 5.0
"""Time to commit outcomes after running tasks have used up the time of a stop."""
SKIPPED_MAX: Final = 20


class EngineConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of an engine."""

    node: str
    min_workers: int = 1
    max_workers: int = 10
    lease_seconds: float = 9.0
    task_timeout: float | None = 30.0
    shutdown_timeout: float = 30.0
    ageing_seconds: float = AGEING_SECONDS
    queues: tuple[str, ...] | None = None
    retention: Retention = Retention()
    defaults: Defaults = Defaults()


class Engine:
    """Composes the loops over a store and a bus that the caller has opened."""

    watchdog: Watchdog | None = None
    """Only in a started engine with a real clock."""

    def __init__(
        self,
        config: EngineConfig,
        *,
        clock: Clock,
        store: Store,
        bus: Bus,
        handlers: Handlers,
        make_scheduled: Callable[[Schedule, float], Awaitable[Submission]],
        on_ended: Callable[[list[Task]], None],
        on_failed: Callable[[EngineFailed], None],
        code_schedules: Callable[[], Sequence[Schedule]] = tuple,
        meter: Meter | None = None,
    ) -> None:
        self.config = config
        self._clock = clock
        self._store = store
        """The store of callers. Loops and runners have reserved connections."""
        self._own = own = store.reserved(Rank.LOOPS)
        self._of_runners = store.reserved(Rank.RUNNERS)
        self._entries = EntryStore(self._of_runners)
        self._bus = bus
        self._handlers = handlers
        self._on_ended = on_ended
        self.supervisor = Supervisor(clock, on_failed)
        self.executor = Executor(self._thread_returned)
        self._measures = meters.Measures(meter)
        self.completer = Completer(clock, own, self._done, self._measures.written)
        self.runner = Runner(
            clock, handlers, self.executor, self, default_timeout=config.task_timeout
        )
        self.runs = OwnedRuns(clock, self.completer.deliver, self.runner.timed_out)
        self.pool = WorkerPool(
            clock=clock,
            runner=self.runner,
            runs=self.runs,
            deliver=self.completer.deliver,
            room=self.completer.room,
            supervisor=self.supervisor,
            on_free=self._worker_freed,
            minimum=config.min_workers,
            maximum=config.max_workers,
        )
        self.dispatcher = Dispatcher(
            clock,
            own,
            bus,
            self.pool,
            handlers,
            node=config.node,
            lease_seconds=config.lease_seconds,
            queues=config.queues,
            ageing_seconds=config.ageing_seconds,
        )
        self.direct_start = DirectStart(own, self.dispatcher) if store.one_writer else None
        """None on a store with many writers."""
        self.heartbeat = Heartbeat(
            clock,
            own,
            self.runs,
            handlers,
            node=config.node,
            lease_seconds=config.lease_seconds,
            describe=self.describe,
            is_claiming=lambda: self.dispatcher.claiming,
            on_released=self._publish_work,
            defaults=config.defaults,
        )
        self.sweeper = self._sweeper(config)
        self.scheduler = Scheduler(clock, own, make_scheduled, self._publish_work, code_schedules)
        self._unsubscribe: Callable[[], None] = lambda: None
        self._stopped = self._hurried = False

    def _sweeper(self, config: EngineConfig) -> Sweeper:
        return Sweeper(
            self._clock,
            self._own,
            config.retention,
            self._publish_work,
            node=config.node,
            lease_seconds=config.lease_seconds,
            on_counted=self.measure,
            renewed_at=lambda: self.heartbeat.renewed_at,
        )

    @property
    def loops(self) -> tuple[Loop, ...]:
        return (self.completer, self.dispatcher, self.heartbeat, self.sweeper, self.scheduler)

    async def prepare(self) -> None:
        """Announces the node and starts its workers, but no loop."""
        self._on_cut_short(self.sweeper.wake)
        self.dispatcher.refused = self._refused
        await self.heartbeat.tick()
        await self.dispatcher.warm_up()
        self.pool.start()
        self._unsubscribe = self._bus.subscribe(self._hinted, WORK)

    async def start(self) -> None:
        await self.prepare()
        for loop in self.loops:
            self.supervisor.start(loop.name, loop.run)
        self.supervisor.start("scaler", self._scale)
        if isinstance(self._clock, SystemClock):
            # With a virtual clock nothing blocks, and no other thread may run.
            lease = self.config.lease_seconds
            self.watchdog = Watchdog(
                self._clock, self.runs.named, patience_seconds=lease / 3, lease_seconds=lease
            )
            self.watchdog.start()

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
        flush_until = self._clock.monotonic() + self.config.shutdown_timeout
        await self._last_claim()
        self.dispatcher.stopping = True
        self._unsubscribe()
        self._on_cut_short(lambda: None)
        await self._give_back(self.pool.take_unstarted(), "the worker stops before it was started")
        if not await self.pool.wait_quiet(self.config.shutdown_timeout):
            abandoned = self.runs.abandon()
            # Cancelled handlers clean up while they still hold the lease.
            await self.pool.wait_quiet(UNWIND_SECONDS)
            await self._give_back(abandoned, "the worker stops and the task took too long")
        await self._flush(flush_until)
        if self.watchdog is not None:
            self.watchdog.stop()
        await self.supervisor.stop()
        await self.executor.close()
        try:
            await self.heartbeat.release_unknown()
            await self._own.upkeep.leave(self.config.node)
            self._bus.publish(FEED)
        except StoreUnavailable:
            return

    def resize(self, by: int) -> int:
        """Adds or removes workers. Returns the new number."""
        workers = self.pool.resize(by)
        self.dispatcher.wake()
        return workers

    def hurry(self) -> None:
        """Ends the waiting of a `stop` in progress: running handlers are cancelled, their tasks are given
        back, and outcomes get at most `FLUSH_SECONDS`."""
        self._hurried = True
        self.pool.hurry()

    async def _flush(self, until: float) -> None:
        """Waits until all outcomes are committed, in steps, so that `hurry` takes effect between them."""
        while not await self.completer.flush(FLUSH_SECONDS):
            if self._hurried or self._clock.monotonic() >= until:
                return

    async def _last_claim(self) -> None:
        """Starts tasks that were enqueued before the stop, if a worker is idle. Waits for a claim in
        progress: if it were cancelled, no worker would run the tasks that it claimed."""
        self.dispatcher.ending = True
        async with self.dispatcher.ticking:
            await self.supervisor.stop(self.dispatcher.name)
        if self.dispatcher.is_woken:
            await self.dispatcher.step()
        await asyncio.sleep(0)

    async def _give_back(self, tasks: Sequence[Task], reason: str) -> None:
        if not tasks:
            return
        for task in tasks:
            self.runs.by_id.pop(task.run, None)
        instructions = [Instruction(task.id, Release(reason), fence=task.fence) for task in tasks]
        try:
            answers = await self._own.apply(instructions, wait=False)
            if held := [
                instruction
                for instruction, answer in zip(instructions, answers, strict=True)
                if is_held(answer)
            ]:
                await self._own.apply(held)
        except StoreUnavailable:
            return  # The leases expire.
        self._bus.publish(WORK)

    async def _scale(self) -> None:
        while True:
            self.pool.rescale()
            await self._give_back(self.pool.take_stalled(), "the workers here are busy for long")
            await self._clock.sleep(1.0)

    def _thread_returned(self) -> None:
        self.dispatcher.wake()

    def _refused(self) -> frozenset[str]:
        """Types whose handlers run in threads, while too many threads do not return."""
        if self.executor.has_threads:
            return frozenset()
        return frozenset(h.type for h in self._handlers if h.isolation is Isolation.THREAD)

    # -- wiring ----------------------------------------------------------------------------------

    def _hinted(self, hint: str) -> None:
        if is_of_children(hint):
            self.sweeper.wake()
        self.dispatcher.hinted(one=is_of_one(hint))

    def _worker_freed(self) -> None:
        self.dispatcher.worker_freed()

    def _on_cut_short(self, listener: Callable[[], None]) -> None:
        for store in (self._store, self._own, self._of_runners):
            store.cascades.on_cut_short = listener

    def _publish_work(self) -> None:
        self._bus.publish(WORK)

    def measure(self, counts: meters.Counts) -> None:
        """Updates the gauges of the meter, if there is one."""
        self._measures.counted(counts)
        self._measures.worked(
            workers=self.pool.workers,
            busy=self.pool.busy,
            restarts=self.supervisor.restarts,
            expired=self.sweeper.expired,
            bus=self._bus,
        )

    def _done(self, answers: Sequence[tuple[Task, Ruling]]) -> None:
        """Called with outcomes that the store has committed or refused."""
        if self._measures.has_meter:
            self._measures.ended(answers)
        more_work = False
        runs, ended = self.runs.by_id, list[Task]()
        for task, ruling in answers:
            runs.pop(task.run, None)
            now = ruling.after if type(ruling) is Transition else applied(ruling)
            if now is not None:
                ended.append(now)
                if now.status is QUEUED or now.limits or now.has_dependents:
                    more_work = True
            if task.has_dependents or task.limits:
                more_work = True
        self._on_ended(ended)
        if more_work:
            self._bus.publish(WORK)
        self._bus.publish(FEED)
        if not self.pool.busy:
            self.dispatcher.worker_freed()

    @property
    def troubles(self) -> int:
        """Unexpected errors that the loops survived since the start."""
        return sum(loop.troubles for loop in self.loops)

    def describe(self) -> dict[str, object]:
        """The description of this node for other processes."""
        return {
            "types": list(self._handlers.types()),
            "type_options": self.heartbeat.type_conflicts.options,
            "queues": list(self.dispatcher.queues),
            "workers": self.pool.workers,
            "busy": self.pool.busy,
            "deaf_handlers": self.runs.deaf,
            "abandoned_threads": self.executor.abandoned_threads,
            "troubles": self.troubles,
            "lease_seconds": self.config.lease_seconds,
            "hints": self._bus.mode().why,
            "skipped": dict(list(self.scheduler.skipped.items())[:SKIPPED_MAX]),
        }

    # -- services of a task's context --------------------------------------------------------------

    async def report(self, instruction: Instruction) -> Ruling:
        rulings = await self._outlast(lambda: self._of_runners.apply([instruction]))
        self._bus.publish(FEED)
        return rulings[0]

    def holds_up(self, tx: object) -> bool:
        return self._store.holds_up(tx)

    async def parents(self, task_id: str) -> dict[str, Task]:
        dependencies = await self._of_runners.reads.dependencies(task_id)
        return await self._of_runners.reads.get([each.parent_id for each in dependencies])

    async def begin_step(self, request: EntryRequest, tx: object) -> EntryVerdict:
        with self._count_refused():
            if tx is not None:
                return await self._entries.begin(request, tx=tx)
            return await self._outlast(lambda: self._entries.begin(request))

    async def end_step(self, lease: EntryLease, outcome: Outcome | None, tx: object) -> None:
        with self._count_refused():
            if tx is not None or outcome is None:
                # A caller's transaction does not survive an outage, and a step that was given up need not be
                # written.
                await self._entries.end(lease, outcome, tx=tx)
            else:
                await self._outlast(lambda: self._entries.end(lease, outcome))

    @contextmanager
    def _count_refused(self) -> Iterator[None]:
        try:
            yield
        except LeaseLost:
            self.completer.fenced += 1
            raise

    async def _outlast(self, write: Callable[[], Awaitable[T]]) -> T:
        """A write of a handler's context. It waits out an outage of the store, so that an outage costs no
        attempt. A lease that was lost meanwhile is reported after the outage. A timeout ends the wait."""
        pauses = chain(OUTAGE_SECONDS, repeat(OUTAGE_SECONDS[-1]))
        while True:
            try:
                return await write()
            except StoreUnavailable:
                await self._clock.sleep(next(pauses))
