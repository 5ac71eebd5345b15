"""What the end of a task means for those that wait for it, in bites of a bounded size.

Promises: a transaction settles at most `BITE` dependents. What is left is written down in the same
transaction (`holdfast_cascade`), so a crash leaves work and not a task that waits for ever; `next_bite`
continues, in any process. Any width and depth works. Locks go from parents to children.
Never: decides by itself, never two bites of one parent at once (its row is locked).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from holdfast.core import dependency
from holdfast.core.command import Order
from holdfast.core.decide import Transition, decide, ended
from holdfast.core.task import ENDED, Task
from holdfast.store.script import Script, call, call_rows
from holdfast.store.scripts.work import Work, load

BITE: Final = 1_000
"""Dependents that one transaction settles."""

Edge = tuple[str, str, str]
"""Child, parent, policy."""


def settle_dependents(work: Work, left: int) -> Script[None]:
    """Level by level, until nothing that ended has anybody waiting for it, or `left` were settled."""
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
        if left <= 0:
            yield from _leave(work, dict.fromkeys(parents, ""))
            return
        left -= yield from settle_children(work, parents, left)


def settle_children(work: Work, parents: Mapping[str, Task], left: int) -> Script[int]:
    """At most `left` of those that wait for these, which have ended and are locked; how many."""
    edges = yield call("open_edges", ids=sorted(parents), limit=left)
    yield from _settle(work, parents, edges)
    if len(edges) == left:
        child_id, parent_id, _ = edges[-1]
        # Edges come in the order of their parents: those after the last one were not reached.
        rest = {each: "" for each in parents if each > parent_id}
        yield from _leave(work, {parent_id: child_id, **rest})
    return len(edges)


def next_bite(work: Work, parent_id: str) -> Script[int]:
    """Goes on with what an earlier transaction left; how much was done. 0: nothing could be."""
    rows = yield call("lock_cascade", parent_id=parent_id)
    if not rows:
        return 0
    yield from load(work, [parent_id])
    parent = work.tasks.get(parent_id)
    if parent is None or parent.status not in ENDED:
        # It came back: its dependents wait for its next end.
        yield call("end_cascade", parent_id=parent_id)
        return 1
    edges = yield call("more_edges", parent_id=parent_id, after_child=rows[0][0], limit=BITE)
    yield from _settle(work, {parent_id: parent}, edges)
    if len(edges) == BITE:
        yield from _leave(work, {parent_id: edges[-1][0]})
    else:
        yield call("end_cascade", parent_id=parent_id)
    return len(edges) + 1


def _settle(work: Work, parents: Mapping[str, Task], edges: Sequence[Edge]) -> Script[None]:
    yield from load(work, (child for child, _, _ in edges))
    settled = []
    for child_id, parent_id, policy in edges:
        verdict = dependency.settlement(parents[parent_id], dependency.Policy(policy))
        child = work.tasks.get(child_id)
        decision = decide(child, Order(child_id, verdict), work.now) if child is not None else None
        if isinstance(decision, Transition):
            work.move(decision)
        # An edge to a dead parent stays open: the child that comes back waits for it again.
        if verdict.satisfied:
            settled.append((child_id, parent_id))
    if settled:
        yield call_rows("settle_edges", settled)


def _leave(work: Work, places: Mapping[str, str]) -> Script[None]:
    work.is_cut_short = True
    yield call_rows("leave_cascades", sorted(places.items()))
