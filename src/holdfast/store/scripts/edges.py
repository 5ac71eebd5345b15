"""Edges that came in loose, and how they are tied.

A transaction that must not lock a parent (it is the caller's, or it may have to wait for another one) inserts
its children blocked and their edges loose: the parent does not know of them and may end meanwhile. A short
transaction of ours ties them later: it locks the parent, marks that it has dependents, and if it has ended by
then, settles the children. So either the parent's end sees the edge or the tie sees the parent's end.

Promises: a parent that another transaction holds is left for the next time. Any number of nodes may tie.
"""

from __future__ import annotations

from typing import NamedTuple

from holdfast.core import dependency
from holdfast.core.command import Order
from holdfast.core.dependency import Policy
from holdfast.core.task import ENDED
from holdfast.store.script import Script, call, call_rows
from holdfast.store.scripts import apply, cascade
from holdfast.store.scripts.work import Recorder, Work, load


class Tied(NamedTuple):
    """What came of a look for loose edges."""

    done: int
    is_all: bool
    """Whether all that were seen are tied; if not, another transaction holds a parent."""


def tie(*, now: float, batch: int, recorder: Recorder, limit: int) -> Script[Tied]:
    """Ties some loose edges."""
    edges = yield call("loose_edges", limit=limit)
    if not edges:
        return Tied(0, True)
    work = Work(now)
    parents = sorted({parent_id for _, parent_id, _ in edges})
    work.load((yield call("lock_free_tasks", ids=parents)))
    known = sorted(work.tasks)
    gone = yield from _gone(parents, known)
    tied = [edge for edge in edges if edge[1] in gone or edge[1] in work.seen]
    if known:
        yield call("mark_parents", ids=known)
    ended = {i: work.tasks[i] for i in known if work.tasks[i].status in ENDED}
    settled = (yield from cascade.settle_children(work, ended, cascade.BITE)) if ended else 0
    yield from _settle_orphans(work, [edge for edge in tied if edge[1] in gone])
    if tied:
        yield call_rows("tie_edges", [(child_id, parent_id) for child_id, parent_id, _ in tied])
    yield from apply.finish(work, batch, recorder, cascade.BITE - settled)
    return Tied(len(tied), len(tied) == len(edges))


def _gone(parents: list[str], known: list[str]) -> Script[set[str]]:
    """Those that were pruned; the others that are not known are held by somebody."""
    missing = set(parents).difference(known)
    if not missing:
        return set()
    rows = yield call("get_tasks", ids=sorted(missing))
    return missing.difference(task.id for task in rows)


def _settle_orphans(work: Work, edges: list[tuple[str, str, str]]) -> Script[None]:
    """Children whose parent ended and was pruned before its end could be told to them."""
    yield from load(work, (child_id for child_id, _, _ in edges))
    settled = []
    for child_id, parent_id, policy in edges:
        verdict = dependency.orphaned(parent_id, Policy(policy))
        apply.carry_out(work, Order(child_id, verdict))
        if verdict.satisfied:
            settled.append((child_id, parent_id))
    if settled:
        yield call_rows("settle_edges", settled)
