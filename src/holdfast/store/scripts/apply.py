"""The one path of changes: lock, let the core decide, settle what hangs on it, write, record.

Promises: rows, dependents, limits and facts change together or not at all. Never: decides by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from holdfast.core import dependency
from holdfast.core.command import Order, Revive
from holdfast.core.decide import Decision, Refusal, Transition, decide, ended
from holdfast.core.task import Failure, FailureKind, Status, Task
from holdfast.store.script import Script, call, call_rows
from holdfast.store.scripts import limits
from holdfast.store.scripts.work import Recorder, Work

CASCADE_MAX = 100_000
"""Tasks that one transaction may settle; a wider graph is refused rather than locked for minutes."""


def apply(
    orders: Sequence[Order], *, now: float, batch: int, recorder: Recorder
) -> Script[list[Decision]]:
    """Carries out a batch of orders; the answers are in their order."""
    work = Work(now)
    tasks = yield call("lock_tasks", ids=sorted({order.task_id for order in orders}))
    work.load(tasks)
    decisions = [_one(work, order) for order in orders]
    yield from finish(work, batch, recorder)
    return decisions


def _one(work: Work, order: Order) -> Decision:
    task = work.tasks.get(order.task_id)
    if task is None:
        return Refusal(order.task_id, "not-found", f"task {order.task_id} does not exist")
    decision = decide(task, order, work.now)
    if isinstance(decision, Transition):
        work.move(decision)
    else:
        work.facts.extend(decision.facts)
    return decision


def finish(work: Work, batch: int, recorder: Recorder) -> Script[None]:
    """Everything that follows from the changes so far, then the write."""
    yield from _settle_dependents(work)
    yield from _revive_dependents(work)
    yield from limits.give_back(work)
    yield from work.save(recorder, batch)


def _settle_dependents(work: Work) -> Script[None]:
    """Level by level, until nothing that ended has anybody waiting for it."""
    done = 0
    while True:
        parents = {
            t.after.id: work.tasks[t.after.id]
            for t in work.transitions[done:]
            if ended(t) and t.after.has_dependents
        }
        done = len(work.transitions)
        if not parents:
            return
        if len(work.transitions) > CASCADE_MAX:
            raise ValueError(f"more than {CASCADE_MAX} tasks hang on each other: split the graph")
        edges = yield call("open_edges", ids=sorted(parents))
        yield from _load(work, (child for child, _, _ in edges))
        settled = []
        for child_id, parent_id, policy in edges:
            verdict = dependency.settlement(parents[parent_id], dependency.Policy(policy))
            moved = isinstance(_one(work, Order(child_id, verdict)), Transition)
            # A child that had failed already keeps the edge open: once revived, it waits for it again.
            if moved or verdict.satisfied:
                settled.append((child_id, parent_id, 1))
        if settled:
            yield call_rows("settle_edges", settled)


def _revive_dependents(work: Work) -> Script[None]:
    """A replayed dead letter takes along those that failed with it, and those that failed with them."""
    revived = [t.after.id for t in work.transitions if _came_back(t)]
    while revived:
        rows = yield call("failed_with", ids=sorted(revived))
        yield from _load(work, (child for child, _, _ in rows))
        revived = []
        reopened = []
        for child_id, parent_id, waiting_on in rows:
            if not _failed_with(work.tasks[child_id], parent_id):
                continue
            if isinstance(_one(work, Order(child_id, Revive(parent_id, waiting_on))), Transition):
                revived.append(child_id)
                reopened.append((child_id, parent_id, 0))
        if reopened:
            yield call_rows("settle_edges", reopened)


def _came_back(transition: Transition) -> bool:
    before, after = transition.before, transition.after
    return (
        before.status is Status.FAILED
        and after.status is Status.QUEUED
        and bool(after.has_dependents)
    )


def _failed_with(task: Task, parent_id: str) -> bool:
    failure: Failure | None = task.failure
    return (
        failure is not None
        and failure.kind is FailureKind.DEPENDENCY
        and failure.cause == parent_id
    )


def _load(work: Work, ids: Iterable[str]) -> Script[None]:
    missing = sorted({task_id for task_id in ids if task_id not in work.seen})
    if missing:
        tasks = yield call("lock_tasks", ids=missing)
        work.load(tasks)
