"""The engine of one process: its loops, put together, started and stopped in order.

Promises: `stop` takes no new work, waits for what runs up to a limit, gives the rest back unpunished, and
leaves nothing uncommitted where the store answers. Handlers that were given up are not waited for. Stopping
twice is fine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain, repeat
from typing import Final, TypeVar

import msgspec

from holdfast.bus.port import FEED, WORK, Bus, is_of_children, is_of_one
from holdfast.clock import Clock, SystemClock
from holdfast.core.command import Order, Release
from holdfast.core.decide import Decision, Transition, applied
from holdfast.core.ledger import Ask, Outcome, Turn, Verdict
from holdfast.core.priority import AGEING_SECONDS
from holdfast.core.schedule import Schedule
from holdfast.core.submit import Submission
from holdfast.core.task import QUEUED, Task
from holdfast.engine import meters
from holdfast.engine.completer import Completer
from holdfast.engine.dispatcher import Dispatcher
from holdfast.engine.execute import Executor
from holdfast.engine.handlers import Defaults, Handlers, Isolation
from holdfast.engine.keeper import Keeper
from holdfast.engine.loop import OUTAGE_SECONDS, Loop
from holdfast.engine.pool import Pool
from holdfast.engine.scheduler import Scheduler
from holdfast.engine.supervisor import Supervisor
from holdfast.engine.sweeper import Retention, Sweeper
from holdfast.engine.watchdog import Watchdog
from holdfast.errors import EngineFailed, LeaseLost, StoreUnavailable
from holdfast.metrics import Meter
from holdfast.store.ledger import Entries
from holdfast.store.port import Rank
from holdfast.store.scripts import nodes
from holdfast.store.store import Store, is_held

T = TypeVar("T")
UNWIND_SECONDS: Final = 2.0
"""For handlers that a stop has cancelled to clean up."""
FLUSH_SECONDS: Final = 5.0
"""For outcomes to be committed when running tasks have used up the time of a stop."""
SKIPPED_MAX: Final = 20


class EngineConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine may be told."""

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
    """Composes the loops over a store and a bus that somebody else opened."""

    watchdog: Watchdog | None = None
    """Of a started engine in real time."""

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
        """The callers'; the loops and the runners have their own ways to the database."""
        self._own = own = store.reserved(Rank.LOOPS)
        self._of_runners = store.reserved(Rank.RUNNERS)
        self._entries = Entries(self._of_runners)
        self._bus = bus
        self._handlers = handlers
        self._on_ended = on_ended
        self.supervisor = Supervisor(clock, on_failed)
        self.executor = Executor(monotonic=clock.monotonic, on_returned=self._thread_returned)
        self._measures = meters.Measures(meter)
        self.completer = Completer(clock, own, self._done, self._measures.written)
        self.pool = Pool(
            clock=clock,
            handlers=handlers,
            executor=self.executor,
            services=self,
            deliver=self.completer.deliver,
            room=self.completer.room,
            supervisor=self.supervisor,
            on_free=self._freed,
            minimum=config.min_workers,
            maximum=config.max_workers,
            default_timeout=config.task_timeout,
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
        self.keeper = Keeper(
            clock,
            own,
            self.pool,
            handlers,
            node=config.node,
            lease_seconds=config.lease_seconds,
            describe=self.describe,
            is_claiming=lambda: self.dispatcher.claiming,
            on_released=self._work_came,
            defaults=config.defaults,
        )
        self.sweeper = self._sweeper(config)
        self.scheduler = Scheduler(clock, own, make_scheduled, self._work_came, code_schedules)
        self._unsubscribe: Callable[[], None] = lambda: None
        self._stopped = self._hurried = False

    def _sweeper(self, config: EngineConfig) -> Sweeper:
        return Sweeper(
            self._clock,
            self._own,
            config.retention,
            self._work_came,
            node=config.node,
            lease_seconds=config.lease_seconds,
            on_counted=self.measure,
            renewed_at=lambda: self.keeper.renewed_at,
        )

    @property
    def loops(self) -> tuple[Loop, ...]:
        return (self.completer, self.dispatcher, self.keeper, self.sweeper, self.scheduler)

    async def prepare(self) -> None:
        """Announces the node and its workers; starts nothing that ticks."""
        self._on_cut_short(self.sweeper.wake)
        self.dispatcher.refused = self._refused
        await self.keeper.tick()
        await self.dispatcher.warm_up()
        self.pool.start()
        self._unsubscribe = self._bus.subscribe(self._hinted, WORK)

    async def start(self) -> None:
        await self.prepare()
        for loop in self.loops:
            self.supervisor.start(loop.name, loop.run)
        self.supervisor.start("scaler", self._scale)
        if isinstance(self._clock, SystemClock):
            # In virtual time nothing blocks, and no thread may run beside it.
            lease = self.config.lease_seconds
            self.watchdog = Watchdog(
                self._clock, self.pool.named, patience_seconds=lease / 3, lease_seconds=lease
            )
            self.watchdog.start()

    def runs_elsewhere(self, task_type: str) -> bool:
        """Whether the type's handler runs in a thread or a process, not in the event loop."""
        handler = self._handlers.get(task_type)
        return handler is not None and handler.isolation is not Isolation.LOOP

    def announce_soon(self) -> None:
        """A handler was registered while running."""
        self.keeper.wake()
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
            abandoned = self.pool.abandon()
            # Let cancelled handlers clean up while the lease is still theirs.
            await self.pool.wait_quiet(UNWIND_SECONDS)
            await self._give_back(abandoned, "the worker stops and the task took too long")
        await self._flush(flush_until)
        if self.watchdog is not None:
            self.watchdog.stop()
        await self.supervisor.stop()
        await self.executor.close()
        try:
            await self.keeper.release_unknown()
            await self._own.run(partial(nodes.leave, node=self.config.node))
            self._bus.publish(FEED)
        except StoreUnavailable:
            return

    def resize(self, by: int) -> int:
        """More or fewer workers; the number it comes to."""
        workers = self.pool.resize(by)
        self.dispatcher.wake()
        return workers

    def hurry(self) -> None:
        """A `stop` that is under way waits no longer: what still runs is cancelled and given back, and
        outcomes get `FLUSH_SECONDS` at most."""
        self._hurried = True
        self.pool.hurry()

    async def _flush(self, until: float) -> None:
        """Until all outcomes are committed, in steps, between which it looks whether to hurry."""
        while not await self.completer.flush(FLUSH_SECONDS):
            if self._hurried or self._clock.monotonic() >= until:
                return

    async def _last_claim(self) -> None:
        """Work that was enqueued before the stop and has an idle worker still starts. A claim that is
        on its way is waited for: torn off, it would leave tasks that nobody runs."""
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
            self.pool.held.pop(task.run, None)
        orders = [Order(task.id, Release(reason), fence=task.fence) for task in tasks]
        try:
            answers = await self._own.apply(orders, wait=False)
            if held := [
                order for order, each in zip(orders, answers, strict=True) if is_held(each)
            ]:
                await self._own.apply(held)
        except StoreUnavailable:
            return  # The leases run out by themselves.
        self._bus.publish(WORK)

    async def _scale(self) -> None:
        while True:
            self.pool.rescale()
            await self._give_back(self.pool.take_stalled(), "the workers here are busy for long")
            await self._clock.sleep(1.0)

    def _thread_returned(self) -> None:
        self.dispatcher.wake()

    def _refused(self) -> frozenset[str]:
        """Types whose handlers run in threads, while too many threads do not come back."""
        if self.executor.has_threads:
            return frozenset()
        return frozenset(h.type for h in self._handlers if h.isolation is Isolation.THREAD)

    # -- wiring ----------------------------------------------------------------------------------

    def _hinted(self, hint: str) -> None:
        if is_of_children(hint):
            self.sweeper.wake()
        self.dispatcher.hinted(one=is_of_one(hint))

    def _freed(self) -> None:
        self.dispatcher.freed()

    def _on_cut_short(self, listener: Callable[[], None]) -> None:
        for store in (self._store, self._own, self._of_runners):
            store.on_cut_short = listener

    def _work_came(self) -> None:
        self._bus.publish(WORK)

    def measure(self, counts: meters.Counts) -> None:
        """Brings the gauges up to date, for those who have a meter."""
        self._measures.counted(counts)
        self._measures.worked(
            workers=self.pool.workers,
            busy=self.pool.busy,
            restarts=self.supervisor.restarts,
            expired=self.sweeper.expired,
            bus=self._bus,
        )

    def _done(self, answers: Sequence[tuple[Task, Decision]]) -> None:
        """Outcomes that are in the store."""
        if self._measures.is_wanted:
            self._measures.ended(answers)
        more_work = False
        held, ended = self.pool.held, list[Task]()
        for task, decision in answers:
            held.pop(task.run, None)
            now = decision.after if type(decision) is Transition else applied(decision)
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
            self.dispatcher.freed()

    @property
    def troubles(self) -> int:
        """Errors that a loop did not foresee and went on after, since the start."""
        return sum(loop.troubles for loop in self.loops)

    def describe(self) -> dict[str, object]:
        """What other processes may know about this one."""
        return {
            "types": list(self._handlers.types()),
            "type_options": self.keeper.namesakes.options,
            "queues": list(self.dispatcher.queues),
            "workers": self.pool.workers,
            "busy": self.pool.busy,
            "deaf_handlers": self.pool.deaf,
            "abandoned_threads": self.executor.abandoned_threads,
            "troubles": self.troubles,
            "lease_seconds": self.config.lease_seconds,
            "hints": self._bus.mode().why,
            "skipped": dict(list(self.scheduler.skipped.items())[:SKIPPED_MAX]),
        }

    # -- services of a task's context --------------------------------------------------------------

    async def report(self, order: Order) -> Decision:
        decisions = await self._outlast(lambda: self._of_runners.apply([order]))
        self._bus.publish(FEED)
        return decisions[0]

    def holds_up(self, tx: object) -> bool:
        return self._store.holds_up(tx)

    async def parents(self, task_id: str) -> dict[str, Task]:
        rows = await self._of_runners.query("dependencies", id=task_id)
        return await self._of_runners.get([row[0] for row in rows])

    async def begin_step(self, ask: Ask, tx: object) -> Verdict:
        with self._count_refused():
            if tx is not None:
                return await self._entries.begin(ask, tx=tx)
            return await self._outlast(lambda: self._entries.begin(ask))

    async def end_step(self, turn: Turn, outcome: Outcome | None, tx: object) -> None:
        with self._count_refused():
            if tx is not None or outcome is None:
                # A caller's transaction does not outlast an outage; what is given up need not be written.
                await self._entries.end(turn, outcome, tx=tx)
            else:
                await self._outlast(lambda: self._entries.end(turn, outcome))

    @contextmanager
    def _count_refused(self) -> Iterator[None]:
        try:
            yield
        except LeaseLost:
            self.completer.fenced += 1
            raise

    async def _outlast(self, write: Callable[[], Awaitable[T]]) -> T:
        """What a handler says of itself. A store that is away is waited for: an outage costs no attempt.
        Whoever has lost the lease meanwhile hears it then; a timeout ends the wait like any other."""
        pauses = chain(OUTAGE_SECONDS, repeat(OUTAGE_SECONDS[-1]))
        while True:
            try:
                return await write()
            except StoreUnavailable:
                await self._clock.sleep(next(pauses))
