"""Dead letters that come back with the parent they failed with.

Promises: every child that failed with a parent which is back, and has no other dead parent, waits again; one
that has stays dead, with that other parent as its cause. So a child is blocked only while its parents can
still end, and dead with a parent only while one is dead, or until a batch of `cascade.py` has reached it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from holdfast.core import dependency
from holdfast.core.command import Instruction, Replay, Revive
from holdfast.core.decide import Transition, decide
from holdfast.core.dependency import DependencyPolicy, OpenEdge
from holdfast.core.task import FAILED, Status, Task
from holdfast.core.upkeep_rules import failed_with_parent
from holdfast.store.script import Script, call
from holdfast.store.scripts.work import Work


def came_back(transition: Transition) -> bool:
    """Whether this change takes a task out of the dead letters, so that others come back with it."""
    if transition.before.status is not FAILED:
        return False
    return transition.after.status in (Status.QUEUED, Status.BLOCKED)


def bring_back(work: Work, because: Mapping[str, str]) -> Script[None]:
    """Those of these children, locked already, that are dead with a parent and have no dead one now. They
    come with the parent that they come back for."""
    found = (task for i in sorted(because) if (task := work.tasks.get(i)) is not None)
    children = [task.id for task in found if failed_with_parent(task)]
    edges = yield from _open_edges(children)
    for child_id in children:
        now_open = [_as_of_now(work, edge) for edge in edges[child_id]]
        dead = [edge.parent_id for edge in now_open if edge.is_dead]
        if dead:
            work.held[child_id] = dead
            continue
        work.held.pop(child_id, None)
        _carry_out(work, Instruction(child_id, Revive(because[child_id], len(now_open))))


def on_their_way(work: Work, instructions: Iterable[Instruction]) -> Script[set[str]]:
    """Dead letters that are asked to be replayed and come back anyway, to wait for parents that are back:
    started at once, they would run before those."""
    asked = (work.tasks.get(o.task_id) for o in instructions if isinstance(o.command, Replay))
    fell = sorted({task.id for task in asked if task is not None and failed_with_parent(task)})
    edges = yield from _open_edges(fell)
    return {i for i, found in edges.items() if found and not any(e.is_dead for e in found)}


def blame_others(work: Work) -> Script[None]:
    """Those that stay dead, though what they had failed with is back, name what holds them now."""
    causes = {
        child_id: dead[0]
        for child_id, dead in work.held.items()
        if _cause(work.tasks[child_id]) not in dead
    }
    if not causes:
        return
    # Only read: locks go from parents to children, never back up.
    rows = yield call("get_tasks", ids=sorted(set(causes.values())))
    parents: dict[str, Task] = {task.id: task for task in rows}
    for child_id, parent_id in sorted(causes.items()):
        parent = work.tasks.get(parent_id) or parents.get(parent_id)
        _carry_out(work, Instruction(child_id, dependency.change_cause(parent_id, parent)))


def _open_edges(children: Sequence[str]) -> Script[dict[str, list[OpenEdge]]]:
    """Read when the children are locked: of two parents that come back at the same time, in two transactions,
    the later one sees that the other is back."""
    edges: dict[str, list[OpenEdge]] = {child_id: [] for child_id in children}
    if children:
        for child_id, parent_id, policy, status in (yield call("open_parents", ids=children)):
            known = Status(status) if status is not None else None
            edges[child_id].append(OpenEdge(parent_id, DependencyPolicy(policy), known))
    return edges


def _as_of_now(work: Work, edge: OpenEdge) -> OpenEdge:
    """With what this transaction has done to the parent, and not written yet."""
    parent = work.tasks.get(edge.parent_id)
    return OpenEdge(edge.parent_id, edge.policy, parent.status) if parent else edge


def _cause(task: Task) -> str | None:
    return task.failure.cause if task.failure else None


def _carry_out(work: Work, instruction: Instruction) -> None:
    ruling = decide(work.tasks[instruction.task_id], instruction, work.now)
    assert isinstance(ruling, Transition), ruling
    work.move(ruling)
