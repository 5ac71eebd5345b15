"""Laws about parents and dependents, with cascades of one or more batches."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from holdfast.core.task import FailureKind, Status
from holdfast.sim.checkers.history import transactions
from holdfast.sim.checkers.tasks import OVER
from holdfast.sim.outcome import Outcome

DEAD: Final = (Status.FAILED, Status.ABORTED)


def dependents_settle_with_parents(outcome: Outcome) -> Iterator[str]:
    """After the end of its last parent no child is blocked, unless the same transaction recorded the
    cascade as unfinished. At the end of the run no cascade is unfinished."""
    parents: dict[str, list[str]] = defaultdict(list)
    children: dict[str, list[str]] = defaultdict(list)
    for child, parent in outcome.edges:
        parents[child].append(parent)
        children[parent].append(child)
    status: dict[str, str] = {}
    blocked: set[str] = set()
    """Children that are blocked although all parents have ended."""
    for at, touched, left in _moments(outcome, status):
        for task_id in sorted(blocked.union(touched, *(children[i] for i in touched))):
            parent_ids = parents[task_id]
            waits = status.get(task_id) == "blocked" and all(status[p] in OVER for p in parent_ids)
            if not (parent_ids and waits):
                blocked.discard(task_id)
                continue
            blocked.add(task_id)
            if left.isdisjoint(parent_ids):
                yield f"{task_id} is blocked at {at:.3f} though all its parents have ended"
    for parent_id in sorted(outcome.left[-1].parents if outcome.left else ()):
        yield f"{parent_id} has dependents that were never settled"


def _moments(
    outcome: Outcome, status: dict[str, str]
) -> Iterator[tuple[float, set[str], frozenset[str]]]:
    """Time, changed tasks and unfinished cascades after each commit; `status` is updated to it."""
    left: frozenset[str] = frozenset()
    ahead = iter(outcome.left)
    following = next(ahead, None)
    for group in transactions(outcome.history):
        while following is not None and following.transaction <= group[0].transaction:
            left, following = following.parents, next(ahead, None)
        status.update((change.id, change.status) for change in group)
        yield group[0].at, {change.id for change in group}, left


def failed_dependents_have_a_dead_parent(outcome: Outcome) -> Iterator[str]:
    """Checked at the end: a replayed parent revives the dependents that failed with it, also in later
    batches."""
    for task in outcome.tasks.values():
        failure = task.failure
        if task.status is not Status.FAILED or failure is None:
            continue
        if failure.kind is FailureKind.DEPENDENCY and failure.cause is not None:
            parent = outcome.tasks.get(failure.cause)
            if parent is not None and parent.status not in DEAD:
                yield f"{task.id} is dead with {parent.id}, which is {parent.status}"
