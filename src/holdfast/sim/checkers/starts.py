"""Which task starts when: order, limits, schedules, times to wait."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from holdfast.core.priority import AGED_EVERY, AGEING_SECONDS
from holdfast.sim.checkers.history import transactions
from holdfast.sim.handler_outcomes import TICK, knows
from holdfast.sim.outcome import Outcome
from holdfast.sim.primitives import PAID
from holdfast.sim.schedules import TICK_SECONDS
from holdfast.sim.server import Change

TOLERANCE = 1e-6


def cron_fires_once(outcome: Outcome) -> Iterator[str]:
    """Whatever the number of instances: one task for a moment of the schedule."""
    slots = Counter(
        int(task.created_at // TICK_SECONDS) for task in outcome.tasks.values() if task.type == TICK
    )
    for slot, n in slots.items():
        if n > 1:
            yield f"the schedule fired {n} times for its moment {slot}"


def nothing_starts_before_its_time(outcome: Outcome) -> Iterator[str]:
    """A delay, a snooze, a pause before a retry: by the store's time, none is cut short."""
    for change in outcome.history:
        if _is_claim(change) and (change.started_at or 0.0) < change.due_at - TOLERANCE:
            early = change.due_at - (change.started_at or 0.0)
            yield f"{change.id} was started {early:.3f} s before it was due"


class Ready(NamedTuple):
    """The place in line of a task that may be claimed."""

    priority: int
    due_at: float
    type: str


def the_most_urgent_starts_first(outcome: Outcome) -> Iterator[str]:
    """By priority, then by the time they became due; but for whoever has waited for very long."""
    priority = {task.id: int(task.priority) for task in outcome.tasks.values()}
    ready: dict[str, Ready] = {}
    for group in transactions(outcome.history):
        claims = [change for change in group if _is_claim(change)]
        if claims:
            yield from _out_of_order(claims, {change.id for change in group}, ready)
        for change in group:
            ready.pop(change.id, None)
            if _is_in_line(change) and change.id in priority:
                ready[change.id] = Ready(priority[change.id], change.due_at, change.type)


def _out_of_order(
    claims: list[Change], touched: set[str], ready: dict[str, Ready]
) -> Iterator[str]:
    """Those that were handed in by the very transaction that claimed them stood in no line."""
    taken = [change for change in claims if change.id in ready]
    if not taken:
        return
    now = taken[0].started_at or 0.0
    if all(now - ready[change.id].due_at >= AGEING_SECONDS - TOLERANCE for change in taken):
        return
    worst = max(taken, key=lambda change: ready[change.id])
    for task_id, place in ready.items():
        is_first = place[:2] < ready[worst.id][:2] and knows(worst.by, place.type)
        if is_first and place.due_at <= now and task_id not in touched:
            yield f"{worst.id} {tuple(ready[worst.id])} was started before {task_id} {tuple(place)}"
            return


class Line:
    """A task that has waited long enough to be let in before more urgent ones."""

    __slots__ = ("elders", "starts")

    def __init__(self, elders: int) -> None:
        self.elders = elders
        self.starts = 0


def nobody_starves(outcome: Outcome) -> Iterator[str]:
    """The bound of `core.priority`, for all dispatchers together: each may begin to count anew."""
    lives = 1 + len({run.life for run in outcome.record.runs})
    waiting: dict[str, float] = {}
    aged: dict[str, Line] = {}
    for group in transactions(outcome.history):
        claims = [change for change in group if _is_claim(change)]
        now = max((change.started_at or 0.0 for change in claims), default=0.0)
        for task_id, due_at in waiting.items() if claims else ():
            if task_id not in aged and due_at <= now - AGEING_SECONDS:
                aged[task_id] = Line(sum(each < due_at for each in waiting.values()))
        for change in group:
            waiting.pop(change.id, None)
            if (line := aged.pop(change.id, None)) is not None:
                yield from _starved(change.id, line, lives)
            if _is_in_line(change) and change.limits is None:  # So none that only some nodes know.
                waiting[change.id] = change.due_at
        for line in aged.values():
            line.starts += len(claims)
    for task_id, line in aged.items():
        yield from _starved(task_id, line, lives)


def _starved(task_id: str, line: Line, lives: int) -> Iterator[str]:
    if line.starts > (line.elders + 1) * AGED_EVERY * lives:
        yield f"{task_id} waited for {line.starts} starts with {line.elders} before it"


def _is_in_line(change: Change) -> bool:
    """Payments are there to be counted: nobody runs them."""
    return change.status == "queued" and change.gate is None and change.type != PAID


def _is_claim(change: Change) -> bool:
    return change.was == "queued" and change.status == "running"
