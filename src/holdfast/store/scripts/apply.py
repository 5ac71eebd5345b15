"""The one path of changes: lock, let the core decide, settle what hangs on it, write, record.

Promises: rows, dependents, limits and facts change together or not at all. Never: decides by itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core import dependency
from holdfast.core.command import Order
from holdfast.core.decide import Decision, Refusal, Transition, decide, ended
from holdfast.store.script import Script, call, call_rows
from holdfast.store.scripts import limits
from holdfast.store.scripts.revive import revive_dependents
from holdfast.store.scripts.work import Recorder, Work, load

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
    yield from revive_dependents(work)
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
        yield from load(work, (child for child, _, _ in edges))
        settled = []
        for child_id, parent_id, policy in edges:
            verdict = dependency.settlement(parents[parent_id], dependency.Policy(policy))
            _one(work, Order(child_id, verdict))
            # An edge to a dead parent stays open: the child that comes back waits for it again.
            if verdict.satisfied:
                settled.append((child_id, parent_id))
        if settled:
            yield call_rows("settle_edges", settled)
