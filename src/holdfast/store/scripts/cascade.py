"""Cascades: settles or revives the dependents of a task that ended or was replayed, in batches.

Promises: a transaction reads at most `cascade_batch` edges of its dialect. The rest is recorded in the same
transaction (`holdfast_cascade`), so after a crash the work is still there; `next_batch` continues it in any
process. The record has the parent and its last settled child. The other children are settled by the state of
the parent at that time, so a parent that ends, is replayed and ends again needs no more records. Any width
and depth works. Locks are taken from parents to children. A child that another transaction holds is skipped
and recorded (`holdfast_cascade_held`) until a batch finds it free.
Never: decides; runs two batches of one parent at once (its row is locked); waits for a child.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from holdfast.core import dependency
from holdfast.core.command import Instruction
from holdfast.core.decide import Transition, decide, ended
from holdfast.core.dependency import DependencyPolicy
from holdfast.core.task import ENDED, Task
from holdfast.store.script import Script, call, call_rows
from holdfast.store.scripts.revive import blame_others, bring_back, came_back
from holdfast.store.scripts.work import Work, load_free

BATCH: Final = 1_000
"""Default number of edges to dependents that one transaction reads."""

Edge: TypeAlias = tuple[str, str, str]
"""Child, parent, policy."""
Tell: TypeAlias = Callable[[Work, Mapping[str, Task], Sequence[Edge]], Script[None]]
"""Settles or revives children by the state of their parents."""


def settle_dependents(work: Work, left: int) -> Script[int]:
    """Settles dependents level by level, until no ended task has unsettled ones or `left` edges were read.
    Returns how many edges may still be read."""
    return (yield from _levels(work, left, ended, settle))


def revive_dependents(work: Work, left: int) -> Script[None]:
    """Revives the tasks that failed with a replayed dead letter, level by level."""
    yield from _levels(work, left, came_back, _revive)
    yield from blame_others(work)


def next_batch(work: Work, parent_id: str, batch: int) -> Script[int]:
    """Continues a cascade that was left over. Returns how much was done; 0: nothing could be."""
    yield from load_free(work, [parent_id])
    parent = work.tasks.get(parent_id)
    if parent is None:
        return 0
    passed = yield call("take_held", parent_id=parent_id, limit=batch)
    places = yield call("cascade_place", parent_id=parent_id)
    room = max(0, batch - len(passed)) if places else 0
    edges = (yield from _more(parent_id, places[0][0], room)) if room else []
    tell = settle if parent.status in ENDED else _revive
    waiting: list[Edge] = [(row[0], row[1], row[2]) for row in passed if not row[3]]
    yield from tell(work, {parent_id: parent}, [*waiting, *edges])
    if places and len(edges) < room:
        yield call("end_cascade", parent_id=parent_id)
    elif edges:
        yield from _leave(work, {parent_id: edges[-1][0]})
    return len(passed) + len(edges) + len(places)


def _more(parent_id: str, after_child: str, limit: int) -> Script[Sequence[Edge]]:
    return (yield call("more_edges", parent_id=parent_id, after_child=after_child, limit=limit))


def _levels(work: Work, left: int, begins: Callable[[Transition], bool], tell: Tell) -> Script[int]:
    done = 0
    while True:
        parents = {
            t.after.id: work.tasks[t.after.id]
            for t in work.transitions[done:]
            if begins(t) and t.after.has_dependents
        }
        done = len(work.transitions)
        if not parents:
            return left
        if left <= 0:
            yield from _leave(work, dict.fromkeys(parents, ""))
            return left
        left -= yield from _children(work, parents, left, tell)


def _children(work: Work, parents: Mapping[str, Task], left: int, tell: Tell) -> Script[int]:
    edges = yield call("open_edges", ids=sorted(parents), limit=left)
    yield from tell(work, parents, edges)
    if len(edges) == left:
        child_id, parent_id, _ = edges[-1]
        # Edges are sorted by parent, so parents after the last one were not reached.
        rest = {unread_id: "" for unread_id in parents if unread_id > parent_id}
        yield from _leave(work, {parent_id: child_id, **rest})
    return len(edges)


def settle(work: Work, parents: Mapping[str, Task], edges: Sequence[Edge]) -> Script[None]:
    """Settles the children of these open edges by how their parents ended. The parents are locked."""
    free = yield from _free(work, edges)
    verdicts = [
        (child_id, dependency.settlement(parents[parent_id], DependencyPolicy(policy)))
        for child_id, parent_id, policy in free
    ]
    satisfied = [
        (child_id, verdict.parent_id) for child_id, verdict in verdicts if verdict.satisfied
    ]
    # A replayed parent may complete before the cascade of its replay has revived every child.
    yield from bring_back(work, dict(reversed(satisfied)))
    for child_id, verdict in verdicts:
        child = work.tasks.get(child_id)
        ruling = (
            decide(child, Instruction(child_id, verdict), work.now) if child is not None else None
        )
        if isinstance(ruling, Transition):
            work.move(ruling)
    # An edge to a dead parent stays open, so that a revived child waits for that parent again.
    if satisfied:
        yield call_rows("settle_edges", satisfied)


def _revive(work: Work, _: Mapping[str, Task], edges: Sequence[Edge]) -> Script[None]:
    free = yield from _free(work, [edge for edge in edges if edge[2] == DependencyPolicy.FAIL])
    yield from bring_back(work, {child: parent for child, parent, _ in reversed(free)})


def _free(work: Work, edges: Sequence[Edge]) -> Script[Sequence[Edge]]:
    """Locks the children of these edges. Returns the edges whose child was locked. The others are recorded
    for a later batch, because a parent never waits for a child."""
    held = yield from load_free(work, (child_id for child_id, _, _ in edges))
    if not held:
        return edges
    work.is_cut_short = True
    left = [(parent_id, child_id) for child_id, parent_id, _ in edges if child_id in held]
    yield call_rows("leave_held", sorted(left))
    return [edge for edge in edges if edge[0] not in held]


def _leave(work: Work, places: Mapping[str, str]) -> Script[None]:
    work.is_cut_short = True
    yield call_rows("leave_cascades", sorted(places.items()))
