"""Laws about the time and the order of starts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from holdfast.core.priority import AGED_EVERY, AGEING_SECONDS
from holdfast.sim.checkers.history import transactions
from holdfast.sim.handler_outcomes import EXTERNAL, TICK, has_handler, is_fair
from holdfast.sim.outcome import Outcome
from holdfast.sim.primitives import PAID
from holdfast.sim.schedules import TICK_SECONDS
from holdfast.sim.server import Change

TOLERANCE = 1e-6


def cron_fires_once(outcome: Outcome) -> Iterator[str]:
    """A schedule creates one task for each due time, with any number of schedulers."""
    slots = Counter(
        int(task.created_at // TICK_SECONDS) for task in outcome.tasks.values() if task.type == TICK
    )
    for slot, n in slots.items():
        if n > 1:
            yield f"the schedule fired {n} times for its due time {slot}"


def no_start_before_due(outcome: Outcome) -> Iterator[str]:
    """No task starts before its delay, snooze or retry pause is over in store time."""
    for change in outcome.history:
        if _is_claim(change) and (change.started_at or 0.0) < change.due_at - TOLERANCE:
            early = change.due_at - (change.started_at or 0.0)
            yield f"{change.id} was started {early:.3f} s before it was due"


class Ready(NamedTuple):
    """The sort key of a claimable task, and its type."""

    priority: int
    due_at: float
    type: str


def starts_follow_priority(outcome: Outcome) -> Iterator[str]:
    """Claims follow priority, then due time, except for aged tasks. Keys of a fair type take turns in the
    places of its tasks. What a task is comes from its changes: it may have been pruned since."""
    ready: dict[str, Ready] = {}
    for group in transactions(outcome.history):
        claims = [change for change in group if _is_claim(change)]
        if claims:
            yield from _out_of_order(claims, {change.id for change in group}, ready)
        for change in group:
            ready.pop(change.id, None)
            if _is_claimable(change):
                ready[change.id] = Ready(change.priority, change.due_at, change.type)


def _out_of_order(
    claims: list[Change], touched: set[str], ready: dict[str, Ready]
) -> Iterator[str]:
    """Compares the claims with the tasks that were ready before the transaction. Tasks that the transaction
    itself enqueued do not count. Aged tasks may come first, also beside others: a gateway joins the claims
    of several workers in one transaction."""
    now = claims[0].started_at or 0.0
    young = now - AGEING_SECONDS + TOLERANCE
    claimed = [c for c in claims if c.id in ready and ready[c.id].due_at > young]
    if not claimed:
        return
    turns = {ready[c.id][::2] for c in claimed if is_fair(c.type)}
    places = {c.id: _place(ready[c.id], ready) for c in claimed}
    last = max(claimed, key=lambda change: places[change.id])
    for task_id, key in ready.items():
        is_first = key[:2] < places[last.id][:2] and has_handler(last.by, key.type)
        if is_first and key.due_at <= now and task_id not in touched and key[::2] not in turns:
            yield f"{last.id} {tuple(ready[last.id])} was started before {task_id} {tuple(key)}"
            return


def _place(key: Ready, ready: dict[str, Ready]) -> Ready:
    """Where the task stood in line: for one of a fair type, the first place of the type in its priority,
    because a turn may have given that to its key."""
    if not is_fair(key.type):
        return key
    return min(other for other in ready.values() if other[::2] == key[::2])


class AgedTask:
    """A task that has waited long enough to be claimed before more urgent ones."""

    __slots__ = ("elders", "starts")

    def __init__(self, elders: int) -> None:
        self.elders = elders
        self.starts = 0


def no_starvation(outcome: Outcome) -> Iterator[str]:
    """The bound of `core.priority`, summed over all dispatchers: each restart begins a new count."""
    lives = 1 + len({run.life for run in outcome.record.runs})
    waiting: dict[str, float] = {}
    aged: dict[str, AgedTask] = {}
    for group in transactions(outcome.history):
        claims = [change for change in group if _is_claim(change)]
        now = max((change.started_at or 0.0 for change in claims), default=0.0)
        for task_id, due_at in waiting.items() if claims else ():
            if task_id not in aged and due_at <= now - AGEING_SECONDS:
                aged[task_id] = AgedTask(sum(other < due_at for other in waiting.values()))
        for change in group:
            waiting.pop(change.id, None)
            if (aged_task := aged.pop(change.id, None)) is not None:
                yield from _starved(change.id, aged_task, lives)
            if (
                _is_claimable(change) and change.limits is None
            ):  # This excludes types that only some nodes handle.
                waiting[change.id] = change.due_at
        for aged_task in aged.values():
            aged_task.starts += len(claims)
    for task_id, aged_task in aged.items():
        yield from _starved(task_id, aged_task, lives)


def _starved(task_id: str, aged_task: AgedTask, lives: int) -> Iterator[str]:
    if aged_task.starts > (aged_task.elders + 1) * AGED_EVERY * lives:
        yield f"{task_id} waited for {aged_task.starts} starts with {aged_task.elders} before it"


def _is_claimable(change: Change) -> bool:
    """Payments are never claimed: they only count effects. Offline nodes claim their tasks by id."""
    is_claimed = change.type not in (PAID, EXTERNAL)
    return change.status == "queued" and change.gate is None and is_claimed


def _is_claim(change: Change) -> bool:
    return change.was == "queued" and change.status == "running"
