"""Totals of a run: what a runner reports as metrics, by every way to report them.

Promises: one bound for worker streams, heartbeats and pushes, and one form of the event.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from holdfast.core.check import check_id, check_number, shown
from holdfast.core.event import NewEvent
from holdfast.core.task import Task
from holdfast.errors import InvalidInput

OWN: Final = frozenset({"tokens_used", "cost", "duration_ms"})
"""Totals that have a field of their own in the messages of workers."""
METRICS_MAX: Final = 50
"""Other totals in one report."""
METRIC_MAX: Final = 1e15


def check_totals(totals: Mapping[str, float]) -> dict[str, float]:
    """The totals of a report, by name."""
    others = len(totals.keys() - OWN)
    if others > METRICS_MAX:
        raise InvalidInput(f"metrics has {others} names: at most {METRICS_MAX}")
    return {
        check_id("metrics", name): check_number(f"metrics.{shown(name)}", total, most=METRIC_MAX)
        for name, total in sorted(totals.items())
    }


def reported(
    task: Task, node: str, fence: int, totals: Mapping[str, float], now: float
) -> NewEvent:
    """The event of a report of the run with this fence."""
    data = {"node": node, "fence": fence, "totals": dict(totals)}
    return NewEvent("task.metrics", now, task.id, task.type, data, task.event_project, task.version)
