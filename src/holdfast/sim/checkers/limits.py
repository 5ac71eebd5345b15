"""Laws about limits and rules of task types, for enqueued and scheduled tasks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from holdfast.sim.handler_outcomes import (
    CONCURRENCY,
    KEY_CONCURRENCY,
    NIGHTLY,
    NIGHTLY_ATTEMPTS,
    NIGHTLY_CONCURRENCY,
    RATE,
    RATE_SECONDS,
)
from holdfast.sim.outcome import Outcome
from holdfast.sim.server import RUN

AT_ONCE: Final = {
    "limited": CONCURRENCY,
    "keyed": KEY_CONCURRENCY,
    NIGHTLY: NIGHTLY_CONCURRENCY,
}


def limits_hold(outcome: Outcome) -> Iterator[str]:
    """Concurrency limits by type and by key hold at all times, rate limits in every window."""
    running: dict[str, set[str]] = defaultdict(set)
    starts: list[float] = []
    for change in outcome.history:
        if change.type in AT_ONCE:
            name = f"{change.type} {change.limits if change.type == 'keyed' else ''}"
            at_once = running[name]
            at_once.add(change.id) if change.status in RUN else at_once.discard(change.id)
            if len(at_once) > AT_ONCE[change.type]:
                yield f"{len(at_once)} tasks of {name.strip()} run at {change.at:.3f}"
        if change.type == "rated" and change.was == "queued" and change.status == "running":
            starts.append(change.started_at or 0.0)
    starts.sort()
    for first, last in zip(starts, starts[RATE:], strict=False):
        if last - first < RATE_SECONDS - 1e-3:
            yield f"{RATE + 1} rated tasks started within {last - first:.3f} s"


def tasks_have_the_rules_of_their_type(outcome: Outcome) -> Iterator[str]:
    """Holds also for tasks created by a node without a handler of the type."""
    for task in outcome.tasks.values():
        if task.type == NIGHTLY and (not task.limits or task.max_attempts != NIGHTLY_ATTEMPTS):
            yield f"{task.id} has the limits {task.limits} and {task.max_attempts} attempts"
