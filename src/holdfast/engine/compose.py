"""Builds an engine: makes its parts and connects them.

Each part gets its dependencies in its constructor. Two parts that need each other are connected by a function
here, which finds the later part when it is called. Never: starts anything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from holdfast.bus.port import WORK
from holdfast.core.decide import Ruling
from holdfast.core.task import Task
from holdfast.engine.announcer import Announcer
from holdfast.engine.basis import Basis
from holdfast.engine.completer import Completer
from holdfast.engine.context_services import ContextServices
from holdfast.engine.direct_start import DirectStart
from holdfast.engine.dispatcher import Dispatcher
from holdfast.engine.engine import Engine
from holdfast.engine.execute import Executor
from holdfast.engine.handlers import Isolation
from holdfast.engine.heartbeat import Heartbeat
from holdfast.engine.meters import Counts, Measures
from holdfast.engine.owned_runs import OwnedRuns
from holdfast.engine.pool import WorkerPool
from holdfast.engine.runner import TaskRunner
from holdfast.engine.scheduler import Scheduler
from holdfast.engine.supervisor import Supervisor
from holdfast.engine.sweeper import Sweeper
from holdfast.store.port import Rank
from holdfast.store.store import Store


def compose(basis: Basis) -> Engine:
    """Builds the engine of one process."""
    clock, bus, config = basis.clock, basis.bus, basis.config
    loop_store = basis.store.reserved(Rank.LOOPS)
    runner_store = basis.store.reserved(Rank.RUNNERS)

    def worker_freed() -> None:
        dispatcher.worker_freed()

    def thread_returned() -> None:
        dispatcher.wake()

    def committed(answers: Sequence[tuple[Task, Ruling]]) -> None:
        announcer.announce(answers)
        heartbeat.taken.refused(answers)

    def describe() -> dict[str, object]:
        return engine.describe()

    def measure(counts: Counts) -> None:
        engine.measure(counts)

    supervisor = Supervisor(clock, basis.on_failed)
    measures = Measures(basis.meter)
    executor = Executor(thread_returned)
    completer = Completer(clock, loop_store, committed, measures.written)
    services = _services(basis, runner_store, completer)
    runner = TaskRunner(
        *(clock, basis.handlers, executor, services, basis.state),
        default_timeout=config.task_timeout,
    )
    runs = OwnedRuns(clock, completer.deliver, runner.timed_out)
    pool = WorkerPool(
        clock=clock,
        runner=runner,
        runs=runs,
        deliver=completer.deliver,
        room=completer.room,
        supervisor=supervisor,
        on_free=worker_freed,
        minimum=config.min_workers,
        maximum=config.max_workers,
    )
    dispatcher = _dispatcher(basis, loop_store, pool, executor, on_claimed=measures.claimed)
    announcer = Announcer(bus, runs, pool, dispatcher, measures=measures, on_ended=basis.on_ended)
    heartbeat = _heartbeat(basis, loop_store, runs, dispatcher, describe)
    sweeper = _sweeper(basis, loop_store, heartbeat, measure)
    publish_work = partial(bus.publish, WORK)
    engine = Engine(
        basis=basis,
        loop_store=loop_store,
        runner_store=runner_store,
        supervisor=supervisor,
        measures=measures,
        executor=executor,
        completer=completer,
        services=services,
        runner=runner,
        runs=runs,
        pool=pool,
        dispatcher=dispatcher,
        direct_start=DirectStart(loop_store, dispatcher) if loop_store.one_writer else None,
        heartbeat=heartbeat,
        sweeper=sweeper,
        scheduler=Scheduler(
            *(clock, loop_store, basis.make_scheduled, publish_work, basis.code_schedules),
            has_type=lambda name: basis.handlers.get(name) is not None,
        ),
    )
    return engine


def _services(basis: Basis, store: Store, completer: Completer) -> ContextServices:
    return ContextServices(
        basis.clock,
        store,
        basis.bus,
        completer.count_fenced,
        decision_deadline=basis.config.decision_deadline,
        follow_ups=basis.follow_ups,
    )


def _dispatcher(
    basis: Basis,
    store: Store,
    pool: WorkerPool,
    executor: Executor,
    *,
    on_claimed: Callable[[int], None],
) -> Dispatcher:
    config, handlers = basis.config, basis.handlers

    def refused() -> frozenset[str]:
        """Types whose handlers run in threads, while too many threads do not return."""
        if executor.has_threads:
            return frozenset()
        return frozenset(h.type for h in handlers if h.isolation is Isolation.THREAD)

    return Dispatcher(
        basis.clock,
        store,
        basis.bus,
        pool,
        handlers,
        node=config.node,
        lease_seconds=config.lease_seconds,
        refused=refused,
        queues=config.queues,
        projects=config.projects,
        ageing_seconds=config.ageing_seconds,
        on_claimed=on_claimed,
    )


def _heartbeat(
    basis: Basis,
    store: Store,
    runs: OwnedRuns,
    dispatcher: Dispatcher,
    describe: Callable[[], dict[str, object]],
) -> Heartbeat:
    return Heartbeat(
        basis.clock,
        store,
        runs,
        basis.handlers,
        node=basis.config.node,
        lease_seconds=basis.config.lease_seconds,
        describe=describe,
        is_claiming=lambda: dispatcher.claiming.is_set,
        on_released=partial(basis.bus.publish, WORK),
        claim_reserved=dispatcher.claim_reserved,
        defaults=basis.config.defaults,
    )


def _sweeper(
    basis: Basis, store: Store, heartbeat: Heartbeat, on_counted: Callable[[Counts], None]
) -> Sweeper:
    return Sweeper(
        basis.clock,
        store,
        basis.config.retention,
        partial(basis.bus.publish, WORK),
        node=basis.config.node,
        lease_seconds=basis.config.lease_seconds,
        on_counted=on_counted,
        renewed_at=lambda: heartbeat.renewed_at,
    )
