"""Revives dead letters when the parent they failed with is replayed.

Promises: a child that failed with a replayed parent and has no other dead parent waits again. A child with
another dead parent stays dead, with that parent as its cause. So a child is blocked only while its
parents can still end, and dead because of a parent only while a parent is dead, or until a batch of
`cascade.py` has reached it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from holdfast.core import dependency
from holdfast.core.command import Instruction, Replay, RetryTask, Revive
from holdfast.core.decide import Transition, decide
from holdfast.core.dependency import DependencyPolicy, OpenEdge
from holdfast.core.task import FAILED, Status, Task
from holdfast.core.upkeep_rules import failed_with_parent
from holdfast.store.script import Script, call
from holdfast.store.scripts.work import Work

AGAIN: Final = (Replay, RetryTask)
"""Commands that start a dead letter again."""


def came_back(transition: Transition) -> bool:
    """Whether this transition takes a task out of the dead letters, so that its children may be revived."""
    if transition.before.status is not FAILED:
        return False
    return transition.after.status in (Status.QUEUED, Status.BLOCKED)


def bring_back(work: Work, because: Mapping[str, str]) -> Script[None]:
    """Revives children that failed with a parent and have no dead parent now. `because` maps each child to
    the parent that is back. The children are locked."""
    tasks = (task for i in sorted(because) if (task := work.tasks.get(i)) is not None)
    children = [task.id for task in tasks if failed_with_parent(task)]
    edges = yield from _open_edges(children)
    for child_id in children:
        now_open = [_as_of_now(work, edge) for edge in edges[child_id]]
        dead = [edge.parent_id for edge in now_open if edge.is_dead]
        if dead:
            work.still_dead[child_id] = dead
            continue
        work.still_dead.pop(child_id, None)
        _carry_out(work, Instruction(child_id, Revive(because[child_id], len(now_open))))


def on_their_way(work: Work, instructions: Iterable[Instruction]) -> Script[set[str]]:
    """Dead letters in these replays that a cascade will revive anyway, because all their parents are back. A
    replay would start them before those parents have ended."""
    replayed = (work.tasks.get(o.task_id) for o in instructions if isinstance(o.command, AGAIN))
    fallen_ids = sorted(
        {task.id for task in replayed if task is not None and failed_with_parent(task)}
    )
    edges = yield from _open_edges(fallen_ids)
    return {i for i, parents in edges.items() if parents and not any(e.is_dead for e in parents)}


def blame_others(work: Work) -> Script[None]:
    """Changes the cause of children that stay dead although the parent they failed with is back. The new
    cause is a parent that is dead now."""
    causes = {
        child_id: dead[0]
        for child_id, dead in work.still_dead.items()
        if _cause(work.tasks[child_id]) not in dead
    }
    if not causes:
        return
    # Read without locks: locks are taken from parents to children, never the other way.
    rows = yield call("get_tasks", ids=sorted(set(causes.values())))
    parents: dict[str, Task] = {task.id: task for task in rows}
    for child_id, parent_id in sorted(causes.items()):
        parent = work.tasks.get(parent_id) or parents.get(parent_id)
        _carry_out(work, Instruction(child_id, dependency.change_cause(parent_id, parent)))


def _open_edges(children: Sequence[str]) -> Script[dict[str, list[OpenEdge]]]:
    """The open edges of these locked children. They are read under the locks: when two transactions replay
    two parents of one child, the later one sees that the other parent is back."""
    edges: dict[str, list[OpenEdge]] = {child_id: [] for child_id in children}
    if children:
        for child_id, parent_id, policy, status in (yield call("open_parents", ids=children)):
            parent_status = Status(status) if status is not None else None
            edges[child_id].append(OpenEdge(parent_id, DependencyPolicy(policy), parent_status))
    return edges


def _as_of_now(work: Work, edge: OpenEdge) -> OpenEdge:
    """The edge with the parent's status in this transaction, which may not be written yet."""
    parent = work.tasks.get(edge.parent_id)
    return OpenEdge(edge.parent_id, edge.policy, parent.status) if parent else edge


def _cause(task: Task) -> str | None:
    return task.failure.cause if task.failure else None


def _carry_out(work: Work, instruction: Instruction) -> None:
    ruling = decide(work.tasks[instruction.task_id], instruction, work.now)
    assert isinstance(ruling, Transition), ruling
    work.move(ruling)
