"""Runs that must not start twice: what the end of a lease means for them.

A runner of such a task asks before it starts: it gets an offer, accepts it, and starts only after its go. The
phase of the run is part of its progress. Promises: without a go nothing has started, so the task goes back to
the queue and spends nothing. After the go the outcome is unknown: the task is stuck under the same fence, so
that the runner may still report, and after `lost_after_seconds` it has failed as lost.
Never: I/O, clocks.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from msgspec.structs import replace

from holdfast.core import codec, failure as failures
from holdfast.core.task import FailureKind, Status, Task
from holdfast.core.transition import (
    Transition,
    evidence,
    new_event,
    queued,
    retry_pause,
    taken_away,
    to_dead_letter,
    with_status,
)

NOT_TAKEN_UP: Final = "the runner did not take up the offer"
UNKNOWN: Final = "the runner stopped answering after its go: the outcome is unknown"


class RunPhase(StrEnum):
    """How far a run has come, in this order."""

    OFFERED = "offered"
    ACCEPTED = "accepted"
    GO = "go"
    STARTED = "started"


BEFORE_GO: Final = frozenset({RunPhase.OFFERED, RunPhase.ACCEPTED})


def phase_of(task: Task) -> RunPhase:
    """The phase of the run that holds the task. A run without a phase was offered."""
    progress = task.progress
    named = progress.get("phase") if isinstance(progress, dict) else None
    return next((phase for phase in RunPhase if phase == named), RunPhase.OFFERED)


def phase_json(phase: RunPhase) -> str:
    """The phase as a report writes it into the progress of a task."""
    return codec.dumps({"phase": phase.value})


def expire(task: Task, now: float) -> Transition:
    """The lease of the run has ended."""
    if task.status is Status.STUCK:
        return _lost(task, now)
    if phase_of(task) in BEFORE_GO:
        event = new_event("task.released", task, now, node=task.node, reason=NOT_TAKEN_UP)
        return Transition(task, taken_away(task, now), (event,))
    seconds = task.options.lost_after_seconds or 0.0
    after = with_status(task, Status.STUCK, now, lease_until=now + seconds, progress_due_at=None)
    event = new_event("task.stuck", task, now, node=task.node, reason=UNKNOWN)
    return Transition(task, after, (event,))


def _lost(task: Task, now: float) -> Transition:
    """Nothing was heard for so long that the run is given up. A task with attempts left runs again: its type
    was declared safe to repeat."""
    message = (
        f"its runner {task.node} got the go and did not answer for "
        f"{task.options.lost_after_seconds:g} s: it may have run"
    )
    lost = replace(failures.plain(task.type, FailureKind.LOST, message), node=task.node)
    failure = failures.after(lost, task.failure)
    if task.attempts >= task.max_attempts:
        dead = to_dead_letter(task, failure, now)
        return replace(dead, after=replace(dead.after, fence=task.fence + 1))
    delay = retry_pause(task)
    after = queued(task, now, due_at=now + delay, fence=task.fence + 1, **evidence(failure))
    event = new_event(
        "task.lost", task, now, node=task.node, deaths=task.deaths, next_retry_at=now + delay
    )
    return Transition(task, after, (event,))
