"""Builds a remote engine: makes its parts and connects them. Never: starts anything."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from holdfast.clock import Clock
from holdfast.core.decide import Ruling, Transition, applied
from holdfast.core.ids import Ids
from holdfast.core.schedule import Schedule
from holdfast.core.task import RunId, Task
from holdfast.core.worker.wire import CommandAck, CommandFrame, TypeDefinition
from holdfast.engine.basis import EngineConfig
from holdfast.engine.completer import Completer
from holdfast.engine.drain import Drain
from holdfast.engine.execute import Executor
from holdfast.engine.follow_ups import NO_FOLLOW_UPS, FollowUps
from holdfast.engine.handlers import Defaults, Handler, Handlers, resolved
from holdfast.engine.meters import Measures
from holdfast.engine.owned_runs import OwnedRuns
from holdfast.engine.pool import WorkerPool
from holdfast.engine.runner import TaskRunner
from holdfast.engine.supervisor import Supervisor
from holdfast.engine.worker_hooks import WorkerState
from holdfast.errors import EngineFailed, HoldfastError
from holdfast.metrics import Meter
from holdfast.remote.channel import Connect
from holdfast.remote.dispatcher import RemoteDispatcher
from holdfast.remote.engine import RemoteEngine
from holdfast.remote.gateways import Gateways
from holdfast.remote.heartbeat import RemoteHeartbeat
from holdfast.remote.leases import Leases
from holdfast.remote.link import Link
from holdfast.remote.losses import Losses
from holdfast.remote.outcomes import RemoteOutcomes
from holdfast.remote.owner import LinkOwner, Served
from holdfast.remote.services import RemoteServices
from holdfast.remote.transport import opener

OUTCOMES_MAX: Final = 400
"""Outcomes in one message. A round trip to a gateway costs more than one to a database."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RemoteBasis:
    """What the caller of a remote engine provides."""

    config: EngineConfig
    gateways: Gateways
    clock: Clock
    ids: Ids
    handlers: Handlers
    on_ended: Callable[[list[Task]], None]
    on_failed: Callable[[EngineFailed], None]
    on_joined: Callable[[str], None]
    """Called with the credential that the node got for a join token."""
    schedules: Callable[[], Sequence[Schedule]] = tuple
    """The schedules of the code, which the gateway fires while this worker runs."""
    meter: Meter | None = None
    open_channel: Connect | None = None
    """None: by the address of the gateway."""
    follow_ups: FollowUps = NO_FOLLOW_UPS
    state: WorkerState = field(default_factory=WorkerState)
    """What the start hooks gave, for handlers."""


def compose_remote(basis: RemoteBasis) -> RemoteEngine:
    """Builds the engine of one process."""
    clock, config = basis.clock, basis.config

    def worker_freed() -> None:
        engine.dispatcher.worker_freed()

    def committed(answers: Sequence[tuple[Task, Ruling]]) -> None:
        _announce(engine, measures, basis.on_ended, answers)

    supervisor = Supervisor(clock, basis.on_failed)
    measures = Measures(basis.meter)
    executor = Executor(worker_freed)
    owner = _Owner(basis)
    link = _link(basis, owner)
    outcomes = RemoteOutcomes(link, clock)
    completer = Completer(clock, outcomes, committed, measures.written, batch_max=OUTCOMES_MAX)
    services = RemoteServices(
        *(link, outcomes, basis.ids, clock),
        runs=lambda: engine.runs,
        on_refused=completer.count_fenced,
        follow_ups=basis.follow_ups,
    )
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
    leases = Leases(clock, runs)
    lease = config.lease_seconds
    dispatcher = RemoteDispatcher(clock, link, pool, leases, basis.handlers, lease_seconds=lease)
    engine = RemoteEngine(
        config=config,
        handlers=basis.handlers,
        link=link,
        supervisor=supervisor,
        executor=executor,
        completer=completer,
        runner=runner,
        runs=runs,
        pool=pool,
        leases=leases,
        dispatcher=dispatcher,
        tls=basis.gateways.tls.context(),
        heartbeat=RemoteHeartbeat(clock, link, runs, pool, leases, lease_seconds=lease),
        drain=Drain(
            clock=clock,
            supervisor=supervisor,
            dispatcher=dispatcher,
            pool=pool,
            runs=runs,
            completer=completer,
            give_back=outcomes.give_back,
            shutdown_timeout=config.shutdown_timeout,
        ),
        measures=measures,
    )
    owner.engine = engine
    return engine


def _link(basis: RemoteBasis, owner: LinkOwner) -> Link:
    return Link(
        basis.gateways,
        basis.clock,
        basis.ids,
        name=basis.config.node,
        lease_seconds=basis.config.lease_seconds,
        owner=owner,
        open_channel=basis.open_channel or opener(basis.gateways),
    )


class _Owner:
    """The engine as its link sees it. The engine is made after the link."""

    engine: RemoteEngine

    def __init__(self, basis: RemoteBasis) -> None:
        self._basis = basis
        self._served: tuple[tuple[Handler, ...], frozenset[str], Served] | None = None

    def served(self) -> Served:
        handlers, refused = tuple(self._basis.handlers), self.engine.refused_types()
        if self._served is None or self._served[:2] != (handlers, refused):
            self._served = (handlers, refused, self._describe(refused))
        return self._served[2]

    def _describe(self, refused: frozenset[str]) -> Served:
        config, handlers = self._basis.config, self._basis.handlers
        return Served(
            types=tuple(name for name in handlers.types() if name not in refused),
            queues=config.queues if config.queues is not None else handlers.queues(),
            slots=config.max_workers,
            definitions_json=definitions_json(handlers, config.defaults, self._basis.schedules()),
        )

    def held(self) -> list[RunId]:
        return self.engine.heartbeat.held()

    def lose(self, losses: Losses) -> None:
        self.engine.heartbeat.lose(losses)

    def obey(self, command: CommandFrame) -> CommandAck | None:
        return self.engine.heartbeat.obey(command)

    def drain(self) -> None:
        self.engine.dispatcher.stopping = True

    def joined(self, credential: str) -> None:
        self._basis.on_joined(credential)

    def connected(self) -> None:
        self.engine.heartbeat.wake()

    def failed(self, error: HoldfastError) -> None:
        failure = EngineFailed(f"no gateway accepts this worker any more: {error}")
        failure.__cause__ = error
        self._basis.on_failed(failure)


def definitions_json(
    handlers: Handlers, defaults: Defaults, schedules: Sequence[Schedule] = ()
) -> str:
    """The types of this process, as producers elsewhere need them, with their schedules."""
    timetables = {schedule.type: schedule for schedule in schedules}
    definitions = [
        TypeDefinition(
            name=handler.type,
            queue=handler.config.queue,
            options=msgspec.to_builtins(resolved(handler.config, defaults)),
            cron=timetables[handler.type].spec if handler.type in timetables else "",
            timezone=timetables[handler.type].timezone if handler.type in timetables else "UTC",
        )
        for handler in handlers
    ]
    return msgspec.json.encode(definitions).decode()


def _announce(
    engine: RemoteEngine,
    measures: Measures,
    on_ended: Callable[[list[Task]], None],
    answers: Sequence[tuple[Task, Ruling]],
) -> None:
    """Announces outcomes that the gateway has committed or refused."""
    if measures.has_meter:
        measures.ended(answers)
    ended: list[Task] = []
    for task, ruling in answers:
        engine.runs.by_id.pop(task.run, None)
        now = ruling.after if type(ruling) is Transition else applied(ruling)
        if now is not None:
            ended.append(now)
    on_ended(ended)
    if not engine.pool.busy:
        engine.dispatcher.worker_freed()
