"""Dead letters that come back with the parent they failed with.

Promises: in the transaction of the replay, level by level, every child that failed with a parent and has no
other dead parent waits again; one that has stays dead, with that other parent as its cause. So a child is
blocked only while somebody works on what it waits for, and dead with a parent only while one is dead.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core import dependency
from holdfast.core.command import Order, Revive
from holdfast.core.decide import Transition, decide
from holdfast.core.dependency import OpenEdge, Policy
from holdfast.core.task import Status, Task
from holdfast.core.upkeep_rules import fell_with_a_parent
from holdfast.store.script import Script, call
from holdfast.store.scripts.work import Work, load


def revive_dependents(work: Work) -> Script[None]:
    """A replayed dead letter takes along those that failed with it, and those that failed with them."""
    revived = [t.after.id for t in work.transitions if _came_back(t)]
    held: dict[str, list[OpenEdge]] = {}
    while revived:
        rows = yield call("fail_edges", ids=sorted(revived))
        because = dict(reversed(rows))
        yield from load(work, because)
        found = (task for i in sorted(because) if (task := work.tasks.get(i)) is not None)
        children = [task.id for task in found if fell_with_a_parent(task)]
        edges = yield from _open_edges(work, children)
        revived = []
        for child_id in children:
            now_open = [_as_of_now(work, edge) for edge in edges[child_id]]
            dead = [edge for edge in now_open if edge.is_dead]
            if dead:
                held[child_id] = dead
                continue
            held.pop(child_id, None)
            _carry_out(work, Order(child_id, Revive(because[child_id], len(now_open))))
            revived.append(child_id)
    yield from _blame(work, held)


def _came_back(transition: Transition) -> bool:
    before, after = transition.before, transition.after
    return (
        before.status is Status.FAILED
        and after.status is Status.QUEUED
        and bool(after.has_dependents)
    )


def _open_edges(work: Work, children: Sequence[str]) -> Script[dict[str, list[OpenEdge]]]:
    """Read when the children are locked: of two parents that come back at the same time, in two transactions,
    the later one sees that the other is back."""
    edges: dict[str, list[OpenEdge]] = {child_id: [] for child_id in children}
    if children:
        for child_id, parent_id, policy, status in (yield call("open_parents", ids=children)):
            known = Status(status) if status is not None else None
            edges[child_id].append(OpenEdge(parent_id, Policy(policy), known))
    return edges


def _as_of_now(work: Work, edge: OpenEdge) -> OpenEdge:
    """With what this transaction has done to the parent, and not written yet."""
    parent = work.tasks.get(edge.parent_id)
    return OpenEdge(edge.parent_id, edge.policy, parent.status) if parent else edge


def _blame(work: Work, held: dict[str, list[OpenEdge]]) -> Script[None]:
    """Those that stay dead, though what they had failed with is back, name what holds them now."""
    causes = {
        child_id: dead[0].parent_id
        for child_id, dead in held.items()
        if _cause(work.tasks[child_id]) not in {edge.parent_id for edge in dead}
    }
    if not causes:
        return
    # Only read: locks go from parents to children, never back up.
    rows = yield call("get_tasks", ids=sorted(set(causes.values())))
    parents: dict[str, Task] = {task.id: task for task in rows}
    for child_id, parent_id in sorted(causes.items()):
        parent = work.tasks.get(parent_id) or parents.get(parent_id)
        _carry_out(work, Order(child_id, dependency.blame(parent_id, parent)))


def _cause(task: Task) -> str | None:
    return task.failure.cause if task.failure else None


def _carry_out(work: Work, order: Order) -> None:
    decision = decide(work.tasks[order.task_id], order, work.now)
    assert isinstance(decision, Transition), decision
    work.move(decision)
