"""Laws about tasks: rows, versions, fences, ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from holdfast.core.fleet.model import FLEET_TYPE
from holdfast.core.task import ENDED, TERMINAL, TRANSITIONS, Status
from holdfast.sim.outcome import Outcome
from holdfast.sim.server import PRUNED, RUN

OVER: Final = frozenset({PRUNED, *(status.value for status in ENDED)})


def acknowledged_survives(outcome: Outcome) -> Iterator[str]:
    """An acknowledged task exists until it is pruned."""
    pruned = {change.id for change in outcome.history if change.status == PRUNED}
    for ack in outcome.record.acks:
        if ack.task_id not in outcome.tasks and ack.task_id not in pruned:
            yield f"{ack.task_id} ({ack.type}) was acknowledged at {ack.at:.3f} and is gone"


def only_ended_tasks_are_pruned(outcome: Outcome) -> Iterator[str]:
    """Retention deletes ended tasks only."""
    for change in outcome.history:
        if change.status == PRUNED and change.was not in OVER:
            yield f"{change.id} was {change.was} and was pruned"


def restart_preserves_state(outcome: Outcome) -> Iterator[str]:
    """After a power loss the store has every acknowledged change."""
    yield from outcome.lost


def all_tasks_end(outcome: Outcome) -> Iterator[str]:
    """All tasks end within the recovery phase."""
    for task in outcome.unfinished:
        yield f"{task.id} ({task.type}) is still {task.status}"


def transitions_are_legal(outcome: Outcome) -> Iterator[str]:
    """Tasks follow the transition table and never leave a terminal status."""
    for change in outcome.history:
        if change.was is None or change.status == PRUNED:
            continue
        was, status = Status(change.was), Status(change.status)
        if was is Status.STUCK and status is not Status.STUCK:
            was = Status.RUNNING  # The runner of a stuck task goes on, in the same transaction.
        if was is not status and status not in TRANSITIONS[was]:
            yield f"{change.id} went from {was} to {status}"
        if was in TERMINAL:
            yield f"{change.id} was {was} and changed"


def versions_increase(outcome: Outcome) -> Iterator[str]:
    """Each change is based on the version before it and increases the version."""
    versions: dict[str, int] = {}
    for change in outcome.history:
        if change.was is not None and change.before_version != versions.get(change.id):
            yield f"{change.id} was written over version {change.before_version}"
        if change.version <= change.before_version:
            yield f"{change.id} went from version {change.before_version} to {change.version}"
        versions[change.id] = change.version


def fences_increase(outcome: Outcome) -> Iterator[str]:
    """A claim has a new fence, and fences never decrease."""
    for change in outcome.history:
        if change.fence < change.before_fence:
            yield f"{change.id}: fence {change.before_fence} became {change.fence}"
        if (
            change.was == "queued"
            and change.status == "running"
            and change.fence == change.before_fence
        ):
            yield f"{change.id} was claimed under the old fence {change.fence}"


def one_effective_runner(outcome: Outcome) -> Iterator[str]:
    """Only a run that started completes a task, and only once, with any number of assumed runners."""
    ran = {(run.task_id, run.fence) for run in outcome.record.runs}
    ended: Counter[tuple[str, int]] = Counter()
    for change in outcome.history:
        if change.was in RUN and change.status == "completed" and change.type != FLEET_TYPE:
            ended[change.id, change.before_fence] += 1
            if (change.id, change.before_fence) not in ran:
                yield f"{change.id} was completed under fence {change.before_fence} that never ran"
    for (task_id, fence), times in ended.items():
        if times > 1:
            yield f"{task_id} was completed {times} times under fence {fence}"


def one_task_for_a_key(outcome: Outcome) -> Iterator[str]:
    """A repeated request returns the task of the first one."""
    for key, ids in outcome.record.keys.items():
        if len(ids) > 1:
            yield f"key {key} was answered with {sorted(ids)}"
    keys = Counter(task.idempotency_key for task in outcome.tasks.values() if task.idempotency_key)
    for key, n in keys.items():
        if n > 1:
            yield f"key {key} made {n} tasks"


def cancel_is_final(outcome: Outcome) -> Iterator[str]:
    last = {change.id: change.was for change in outcome.history if change.status == PRUNED}
    for task_id in sorted(outcome.record.aborted):
        task = outcome.tasks.get(task_id)
        status = task.status.value if task else last.get(task_id, "gone")
        if status != Status.ABORTED.value:
            yield f"{task_id}: cancel was acknowledged, yet it is {status}"


def memory_is_released(outcome: Outcome) -> Iterator[str]:
    """At the end no node holds a task."""
    for node, count in outcome.in_memory.items():
        if count:
            yield f"{node} still holds {count} tasks"


def no_uncaught_errors(outcome: Outcome) -> Iterator[str]:
    yield from outcome.failures
