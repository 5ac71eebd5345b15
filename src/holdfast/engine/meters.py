"""The metrics of a queue and its engine. No label names a task or a node: their number is not bounded.

    metrics = Metrics(holdfast.engine.meters.FAMILIES)
    queue = TaskQueue(url, meter=metrics)

Promises: without a meter, measuring costs nothing. With one, it costs a few microseconds a task, after
its outcome is in the store. Counters and times are of this process, gauges of tasks are of the whole
store. Gauges are updated with the sweeper's count (every 5 to 40 s) and by `get_stats`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

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


class Measures:
    """Reports the measurements of one queue or engine to its meter. Remembers the gauges that it has set, so
    that it can set the gauge of an empty queue or type to 0."""

    def __init__(self, meter: Meter | None) -> None:
        self.has_meter = meter is not None
        self._meter = meter or NullMeter()
        self._expired: Counter[str] = Counter()
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

    def written(self, seconds: float) -> None:
        self._meter.observe(WRITE, seconds)

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

    def worked(
        self, *, workers: int, busy: int, restarts: int, expired: Counter[str], bus: Bus
    ) -> None:
        self._meter.gauge(WORKERS, workers)
        self._meter.gauge(BUSY, busy)
        self._meter.gauge(RESTARTS, restarts)
        for kind in ("engine", "node"):
            self._meter.count(EXPIRED, expired[kind] - self._expired[kind], kind=kind)
        self._expired = expired.copy()
        self.hinted(bus)

    def hinted(self, bus: Bus) -> None:
        """Reports how hints arrive."""
        is_pushing = bus.mode().pushing
        self._meter.gauge(BUS_MODE, float(is_pushing), mode="push")
        self._meter.gauge(BUS_MODE, float(not is_pushing), mode="poll")
