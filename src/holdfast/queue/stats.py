"""Statistics of a queue: numbers of tasks, workers and nodes."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.bus.port import Bus, Mode
from holdfast.core.task import EXECUTION_TYPE, Priority, Status
from holdfast.engine import meters
from holdfast.engine.handlers import Handlers
from holdfast.metrics import Meter
from holdfast.queue.nodes import Nodes
from holdfast.queue.queues import counts_by_queue
from holdfast.queue.session import Sessions
from holdfast.store.store import Store


class Stats(msgspec.Struct, frozen=True):
    """The statistics of a queue, with the statuses of tasks as names. Counts are exact as of the call and
    need no scan."""

    queued: int
    running: int
    workers: int
    dead_letter_count: int
    blocked: int
    paused: int
    completed: int
    aborted: int
    queued_by_priority: dict[str, int]
    by_queue: dict[str, dict[str, int]]
    by_type: dict[str, dict[str, int]]
    registered_handlers: list[str]
    available_workers: int
    hints: Mode
    nodes: int
    """Live nodes that run tasks. Agents of hosts are not among them."""
    fenced: int
    leases_lost: int
    restarts: int
    deaf_handlers: int
    """Handlers in this process that ignore their cancellation. Each occupies a worker."""
    abandoned_threads: int
    """Threads of handlers in this process that still run after their attempt ended. With 16 of them it
    starts no task that needs a thread."""
    troubles: int
    """Unexpected errors of the engine in this process, after which it continued."""

    @property
    def pending(self) -> int:
        """Another name of `queued`."""
        return self.queued

    @property
    def processing(self) -> int:
        """Another name of `running`."""
        return self.running

    @property
    def pending_by_priority(self) -> dict[str, int]:
        """Another name of `queued_by_priority`."""
        return self.queued_by_priority


class Statistics:
    """Collects the counters of the store and the figures of this process."""

    def __init__(
        self, sessions: Sessions, nodes: Nodes, handlers: Handlers, meter: Meter | None
    ) -> None:
        self.meter = meter
        self._sessions = sessions
        self._nodes = nodes
        self._handlers = handlers
        self._measures: meters.Measures | None = None
        self._waiting: set[str] = set()
        """Queues that had a due task: their gauge is set to 0 when they have none."""

    async def measure(self) -> None:
        """Sets the gauges of the meter, for a scrape."""
        resources = await self._sessions.open()
        if self.meter is not None:
            rows = await resources.store.feed.counters()
            await self._measure(resources.store, resources.bus, self.meter, rows)

    async def get(self) -> Stats:
        """Returns exact statistics, and sets the gauges of the meter."""
        resources = await self._sessions.open()
        rows = await resources.store.feed.counters()
        nodes = await self._nodes.runners()
        by_status = dict.fromkeys(Status, 0)
        by_priority = {priority.name.lower(): 0 for priority in Priority}
        by_type: dict[str, dict[str, int]] = {}
        for _, kind, priority, status, n in rows:
            of_type = by_type.setdefault(kind, {})
            of_type[status] = of_type.get(status, 0) + n
            by_status[Status(status)] += n
            if status == Status.QUEUED:
                by_priority[Priority(priority).name.lower()] += n
        engine = self._sessions.engine
        if self.meter is not None:
            await self._measure(resources.store, resources.bus, self.meter, rows)
        return Stats(
            queued=by_status[Status.QUEUED],
            running=by_status[Status.RUNNING],
            workers=engine.pool.workers if engine else 0,
            dead_letter_count=sum(
                counts.get(Status.FAILED, 0)
                for kind, counts in by_type.items()
                if kind != EXECUTION_TYPE
            ),
            blocked=by_status[Status.BLOCKED],
            paused=by_status[Status.PAUSED] + by_status[Status.STUCK],
            completed=by_status[Status.COMPLETED],
            aborted=by_status[Status.ABORTED],
            queued_by_priority=by_priority,
            by_queue=counts_by_queue(rows),
            by_type=by_type,
            registered_handlers=list(self._handlers.types()),
            available_workers=engine.pool.workers - engine.pool.busy if engine else 0,
            hints=resources.bus.mode(),
            nodes=len(nodes),
            fenced=engine.completer.fenced if engine else 0,
            leases_lost=engine.heartbeat.lost if engine else 0,
            restarts=engine.supervisor.restarts if engine else 0,
            deaf_handlers=engine.runs.deaf if engine else 0,
            abandoned_threads=engine.executor.abandoned_threads if engine else 0,
            troubles=engine.troubles if engine else 0,
        )

    async def _measure(self, store: Store, bus: Bus, meter: Meter, rows: Any) -> None:
        """Sets the gauges, also if no workers run in this process."""
        engine = self._sessions.engine
        if engine is not None:
            engine.measure(rows)
        else:
            self._measures = self._measures or meters.Measures(meter)
            self._measures.counted(rows)
            self._measures.hinted(bus)
        due = await store.reads.oldest_due(sorted({queue for queue, *_ in rows}))
        now = store.now()
        for queue, due_at in due.items():
            meter.gauge(meters.OLDEST, max(0.0, now - due_at), queue=queue)
        for queue in self._waiting - due.keys():
            meter.gauge(meters.OLDEST, 0, queue=queue)
        self._waiting |= due.keys()
        head = (await store.feed.head()).offset
        meter.gauge(meters.FEED_HEAD, head)
        reached = min(self._sessions.here.subscriptions.reached.values(), default=head)
        meter.gauge(meters.FEED_LAG, max(0, head - reached))
