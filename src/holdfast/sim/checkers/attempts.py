"""Laws about attempts, deaths of runners and dead letters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from holdfast.core.event import Event
from holdfast.core.fleet.model import FLEET_TYPE
from holdfast.core.task import FailureKind, Status
from holdfast.sim.outcome import Outcome
from holdfast.sim.server import RUN, Change

FREE: Final = frozenset({"task.snoozed", "task.released", "task.lost"})
"""Events that requeue a task without using an attempt."""

TAKEN: Final = "task.resumed"
"""The event of an operator who takes a stuck task from its runner."""


def is_free(event: Event) -> bool:
    """Whether the event says that a runner lost its task, or gave it back, without using an attempt."""
    if event.kind == "task.forced":
        return event.before in RUN and event.after == "queued"
    return event.kind in FREE and not is_spent(event)


def is_spent(event: Event) -> bool:
    """Whether a host that stopped answering after its go has used an attempt: its command may have run."""
    return event.kind == "task.lost" and "next_retry_at" in event.data and not event.data["deaths"]


def attempts_count_failures(outcome: Outcome) -> Iterator[str]:
    """A start uses an attempt; a snooze, a release and the death of a runner return it, a failure does
    not."""
    last: dict[str, Change] = {}
    free: Counter[str] = Counter()
    paid: Counter[str] = Counter()
    taken = {(e.task_id, e.version) for e in outcome.events if e.kind == TAKEN}
    for change in outcome.history:
        before = last.get(change.id)
        last[change.id] = change
        if before is None or change.was not in RUN or change.status != "queued":
            continue
        if change.was == "stuck" and (change.id, change.version) in taken:
            continue
        match before.attempts - change.attempts:
            case 1:
                free[change.id] += 1
            case 0:
                paid[change.id] += 1
            case _:
                yield f"{change.id} went from {before.attempts} attempts to {change.attempts}"
    free_events = Counter(e.task_id for e in outcome.events if is_free(e))
    retry_events = Counter(
        e.task_id
        for e in outcome.events
        if (e.kind == "task.failed" and e.data["will_retry"]) or is_spent(e)
    )
    for task_id in sorted(
        free.keys() | free_events.keys() | paid.keys() | retry_events.keys(), key=str
    ):
        rows = (free[str(task_id)], paid[str(task_id)])
        events = (free_events[task_id], retry_events[task_id])
        if rows != events:
            yield f"{task_id}: {rows} returned and used in the rows, {events} in the feed"


def budgets_hold(outcome: Outcome) -> Iterator[str]:
    """Attempts stay within `max_attempts`; the last allowed death of a runner ends the task."""
    tasks = outcome.tasks
    for change in outcome.history:
        task = tasks.get(change.id)
        if task is None:
            continue
        if change.attempts > task.max_attempts:
            yield f"{change.id} is at attempt {change.attempts} of {task.max_attempts}"
        if change.deaths >= task.options.max_deaths and change.status not in ENDS:
            yield f"{change.id} is {change.status} after {change.deaths} deaths of its runners"


ENDS: Final = frozenset({"failed", "aborted"})


def dead_letters_have_a_reason(outcome: Outcome) -> Iterator[str]:
    """Each failed task has a failure with a kind, a message and a cause."""
    parents: dict[str, set[str]] = {}
    for child, parent in outcome.edges:
        parents.setdefault(child, set()).add(parent)
    for task in outcome.tasks.values():
        if task.status is not Status.FAILED:
            continue
        failure = task.failure
        if failure is None or not failure.message or not task.fingerprint:
            yield f"{task.id} is a dead letter without a reason"
        elif failure.kind is FailureKind.DEPENDENCY:
            if failure.cause not in parents.get(task.id, set()):
                yield f"{task.id} failed with {failure.cause}, which it does not depend on"
        elif (
            failure.kind is FailureKind.LOST
            and task.deaths < task.options.max_deaths
            and task.type != FLEET_TYPE  # a host that does not answer is given up by the time
        ):
            yield f"{task.id} was given up after {task.deaths} deaths"
        elif failure.kind is FailureKind.ERROR and task.attempts < task.max_attempts:
            yield f"{task.id} was given up after {task.attempts} of {task.max_attempts} attempts"
