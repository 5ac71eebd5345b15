"""The metrics of a queue and its engine. No label names a task or a node: their number is not bounded.

    metrics = Metrics(holdfast.engine.meters.FAMILIES)
    queue = TaskQueue(url, meter=metrics)

Promises: without a meter, measuring costs nothing. With one, it costs a few microseconds a task, after
its outcome is in the store. Counters and times are of this process, gauges of tasks are of the whole
store. Gauges are updated with the sweeper's count (every 5 to 40 s) and by `get_stats`.
"""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from holdfast.bus.port import Bus
from holdfast.core.decide import Refusal, Ruling
from holdfast.core.task import EXECUTION_TYPE, Status, Task
from holdfast.metrics import Family, Kind, Meter, NullMeter

__all__ = ["FAMILIES"]

TASKS: Final = "holdfast_tasks_total"
WAIT: Final = "holdfast_task_wait_seconds"
RUN: Final = "holdfast_task_run_seconds"
DEPTH: Final = "holdfast_queue_depth"
BY_TYPE: Final = "holdfast_tasks_by_type"
DEAD: Final = "holdfast_dead_letters"
WORKERS: Final = "holdfast_workers"
BUSY: Final = "holdfast_workers_busy"
RESTARTS: Final = "holdfast_engine_restarts"
EXPIRED: Final = "holdfast_leases_expired_total"
WRITE: Final = "holdfast_store_commit_seconds"
FEED_HEAD: Final = "holdfast_feed_head"
BUS_MODE: Final = "holdfast_bus_mode"
STUCK: Final = "holdfast_tasks_stuck"
OLDEST: Final = "holdfast_queue_oldest_seconds"
LATE: Final = "holdfast_late_results_total"
ENQUEUED: Final = "holdfast_tasks_enqueued_total"
CLAIM_SIZE: Final = "holdfast_claim_batch_size"
OUTCOME_SIZE: Final = "holdfast_outcome_batch_size"
LEASES_LOST: Final = "holdfast_leases_lost_total"
FENCED: Final = "holdfast_fenced_writes_total"
DEAF: Final = "holdfast_handlers_deaf"
ABANDONED: Final = "holdfast_threads_abandoned"
BLOCKS: Final = "holdfast_loop_blocks_total"
TROUBLES: Final = "holdfast_engine_troubles_total"
OUTAGES: Final = "holdfast_store_outages_total"
FEED_LAG: Final = "holdfast_feed_lag_events"
HINTS: Final = "holdfast_bus_hints_total"
BUILD: Final = "holdfast_build_info"
SIZE_BUCKETS: Final = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0)

FAMILIES: Final = (
    Family(
        TASKS,
        Kind.COUNTER,
        "Runs that ended here, by how: completed, retried (any way back into the queue), dead, aborted, "
        "paused, refused (the run was not this worker's any more).",
        ("type", "queue", "outcome"),
    ),
    Family(WAIT, Kind.HISTOGRAM, "Time from being due to being started.", ("type", "queue")),
    Family(RUN, Kind.HISTOGRAM, "Time from the start to the outcome's commit.", ("type", "queue")),
    Family(DEPTH, Kind.GAUGE, "Tasks of a queue in the store, by status.", ("queue", "status")),
    Family(BY_TYPE, Kind.GAUGE, "Tasks of a type in the store, by status.", ("type", "status")),
    Family(DEAD, Kind.GAUGE, "Dead letters of a queue.", ("queue",)),
    Family(WORKERS, Kind.GAUGE, "Workers of this process."),
    Family(BUSY, Kind.GAUGE, "Workers of this process that run a task."),
    Family(RESTARTS, Kind.GAUGE, "Restarts of parts of the engine since its start."),
    Family(
        EXPIRED,
        Kind.COUNTER,
        "Leases of dead runners that this process took back: of an engine, or of a node or remote worker.",
        ("kind",),
    ),
    Family(WRITE, Kind.HISTOGRAM, "Time to write a batch of outcomes, commit included."),
    Family(FEED_HEAD, Kind.GAUGE, "Offset of the latest event."),
    Family(
        BUS_MODE,
        Kind.GAUGE,
        "1 for the way in which hints of other processes arrive: push or poll.",
        ("mode",),
    ),
    Family(STUCK, Kind.GAUGE, "Tasks of a queue whose runner makes no progress.", ("queue",)),
    Family(OLDEST, Kind.GAUGE, "How long the oldest due task of a queue has waited.", ("queue",)),
    Family(
        LATE,
        Kind.COUNTER,
        "Results that came after the run had lost its task, by who ran it: engine, worker, plugin, agent.",
        ("kind",),
    ),
    Family(
        ENQUEUED,
        Kind.COUNTER,
        "Tasks that this process has enqueued, a gateway for its callers too. A repeated request does not "
        "count.",
        ("type", "queue"),
    ),
    Family(
        CLAIM_SIZE,
        Kind.HISTOGRAM,
        "Tasks that a claim of this process took; claims that found none do not count.",
        buckets=SIZE_BUCKETS,
    ),
    Family(
        OUTCOME_SIZE,
        Kind.HISTOGRAM,
        "Outcomes that were written in one transaction, or in one message to a gateway.",
        buckets=SIZE_BUCKETS,
    ),
    Family(LEASES_LOST, Kind.COUNTER, "Runs of this process that lost their lease."),
    Family(FENCED, Kind.COUNTER, "Writes of this process that a newer fence refused."),
    Family(DEAF, Kind.GAUGE, "Handlers of this process that ignore their cancellation."),
    Family(ABANDONED, Kind.GAUGE, "Threads of handlers that go on after their attempt has ended."),
    Family(BLOCKS, Kind.COUNTER, "Times that a handler blocked the event loop of this process."),
    Family(TROUBLES, Kind.COUNTER, "Unexpected errors of the engine, after which it went on."),
    Family(OUTAGES, Kind.COUNTER, "Times that a loop of this process lost the store or gateway."),
    Family(
        FEED_LAG,
        Kind.GAUGE,
        "Events that the slowest event handler of this process (`on_event`) has not got yet.",
    ),
    Family(HINTS, Kind.COUNTER, "Hints that arrived, by topic: work or feed.", ("topic",)),
    Family(
        BUILD, Kind.GAUGE, "1, with the version and the database.", ("version", "python", "backend")
    ),
)
LATE_EVENT: Final = "task.late"
_OUTCOMES: Final = {
    Status.COMPLETED: "completed",
    Status.QUEUED: "retried",
    Status.FAILED: "dead",
    Status.ABORTED: "aborted",
    Status.PAUSED: "paused",
}
Counts = Iterable[tuple[str, str, int, str, int]]
"""(queue, type, priority, status, n)"""


def describe_build(meter: Meter, version: str, backend: str) -> None:
    """Sets the gauge of the build."""
    python = platform.python_version()
    meter.gauge(BUILD, 1, version=version, python=python, backend=backend)


def count_hint(meter: Meter, hint: str) -> None:
    """Counts a hint of a bus."""
    meter.count(HINTS, topic=hint.partition(" ")[0])


class EngineFigures(NamedTuple):
    """What an engine knows of itself. Totals are since its start."""

    workers: int
    busy: int
    restarts: int
    deaf: int
    abandoned: int
    leases_lost: int
    fenced: int
    blocks: int
    troubles: int
    outages: int
    expired: Mapping[str, int] = {}
    """By kind."""


class Measures:
    """Reports the measurements of one queue or engine to its meter. Remembers the gauges that it has set, so
    that it can set the gauge of an empty queue or type to 0."""

    def __init__(self, meter: Meter | None) -> None:
        self.has_meter = meter is not None
        self._meter = meter or NullMeter()
        self._totals: Counter[tuple[str, str]] = Counter()
        self._set: set[tuple[str, tuple[tuple[str, str], ...]]] = set()

    def ended(self, answers: Sequence[tuple[Task, Ruling]]) -> None:
        """Counts ended runs: tasks as they were claimed, and the store's rulings on their outcomes."""
        meter = self._meter
        for task, ruling in answers:
            labels = {"type": task.type, "queue": task.queue}
            if isinstance(ruling, Refusal):
                meter.count(TASKS, outcome="refused", **labels)
                if any(event.kind == LATE_EVENT for event in ruling.events):
                    meter.count(LATE, kind="engine")
                continue
            after = ruling.after
            meter.count(TASKS, outcome=_OUTCOMES.get(after.status, after.status.value), **labels)
            if task.started_at is not None:
                meter.observe(WAIT, max(0.0, task.started_at - task.due_at), **labels)
                meter.observe(RUN, max(0.0, after.updated_at - task.started_at), **labels)

    def written(self, seconds: float, size: int) -> None:
        self._meter.observe(WRITE, seconds)
        self._meter.observe(OUTCOME_SIZE, size)

    def claimed(self, size: int) -> None:
        if size:
            self._meter.observe(CLAIM_SIZE, size)

    def counted(self, counts: Counts) -> None:
        if not self.has_meter:
            return
        gauges: Counter[tuple[str, tuple[tuple[str, str], ...]]] = Counter()
        for queue, kind, _, status, n in counts:
            gauges[DEPTH, (("queue", queue), ("status", status))] += n
            gauges[BY_TYPE, (("type", kind), ("status", status))] += n
            if status == Status.FAILED and kind != EXECUTION_TYPE:
                gauges[DEAD, (("queue", queue),)] += n
            elif status == Status.STUCK:
                gauges[STUCK, (("queue", queue),)] += n
        for name, labels in self._set | gauges.keys():
            self._meter.gauge(name, gauges[name, labels], **dict(labels))
        self._set |= gauges.keys()

    def worked(self, figures: EngineFigures) -> None:
        gauge = self._meter.gauge
        gauge(WORKERS, figures.workers)
        gauge(BUSY, figures.busy)
        gauge(RESTARTS, figures.restarts)
        gauge(DEAF, figures.deaf)
        gauge(ABANDONED, figures.abandoned)
        self._rise(LEASES_LOST, figures.leases_lost)
        self._rise(FENCED, figures.fenced)
        self._rise(BLOCKS, figures.blocks)
        self._rise(TROUBLES, figures.troubles)
        self._rise(OUTAGES, figures.outages)
        for kind, total in figures.expired.items():
            self._rise(EXPIRED, total, kind=kind)

    def _rise(self, name: str, total: int, **labels: str) -> None:
        """Counts what a total has grown by since the last time. The totals of an engine start at 0 with it,
        those of the meter with the process."""
        key = (name, labels.get("kind", ""))
        self._meter.count(name, total - self._totals[key], **labels)
        self._totals[key] = total

    def hinted(self, bus: Bus) -> None:
        """Reports how hints arrive."""
        is_pushing = bus.mode().pushing
        self._meter.gauge(BUS_MODE, float(is_pushing), mode="push")
        self._meter.gauge(BUS_MODE, float(not is_pushing), mode="poll")
