"""Edges that came in unlinked, and how they are linked.

A transaction that must not lock a parent (it is the caller's, or it may have to wait for another one)
inserts its children blocked and their edges unlinked: the parent does not know of them and may end
meanwhile. A short transaction links them later. It locks the parent, marks that it has dependents, and
settles the children if the parent has ended by then. So either the parent's end sees the edge, or the link
sees the parent's end.

Promises: a parent that another transaction holds is left for the next time and delays no other parent; the
same holds for a child that is to be settled. Each edge is settled once, however many nodes link. A link
touches only the children that it links, so a child that cannot be settled fails only the links that name
it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from holdfast.core import dependency
from holdfast.core.command import Instruction
from holdfast.core.dependency import DependencyPolicy
from holdfast.core.task import ENDED, Status
from holdfast.store.script import Script, call, call_rows
from holdfast.store.scripts import apply, cascade
from holdfast.store.scripts.cascade import Edge
from holdfast.store.scripts.work import Recorder, Work, load_free

Pair = tuple[str, str]
"""Child, parent."""


class Linked(NamedTuple):
    """What came of a look for unlinked edges."""

    done: int
    is_all: bool
    """Whether none is left; if some are, other transactions hold their parents, or there are many."""


class Links(NamedTuple):
    """What came of a link."""

    done: int
    statuses: dict[str, Status]
    """Of the tasks that it changed."""
    held: frozenset[str] = frozenset()
    """Children that it left because other transactions hold them."""


NONE: Final = Links(0, {})
LOOKS_MAX: Final = 10
"""Bites of children that are all held, before the rest waits for the next time."""


def look(limit: int, without: Collection[str]) -> Script[list[Pair]]:
    """Loose edges whose parents are free. `without`: not of these children."""
    rows = yield call("unlinked_edges", limit=limit, without=sorted(without))
    return [(row[0], row[1]) for row in rows]


def is_any(without: Collection[str]) -> Script[bool]:
    """Whether an edge is unlinked, even if another transaction holds its parent."""
    return bool((yield call("any_unlinked", without=sorted(without))))


def link_some(
    *, now: float, record_id: int, recorder: Recorder, limit: int, without: Collection[str]
) -> Script[Linked]:
    """Links some unlinked edges of any children but these."""
    passed_over, links = set(without), NONE
    for _ in range(LOOKS_MAX):
        pairs = yield from look(limit, passed_over)
        links = yield from link(pairs, now=now, record_id=record_id, recorder=recorder)
        if links.done or not links.held:
            break
        passed_over |= links.held
    return Linked(links.done, not (yield from is_any(without)))


def link(pairs: Sequence[Pair], *, now: float, record_id: int, recorder: Recorder) -> Script[Links]:
    """Links those of these edges that are unlinked and whose parents are free. A child that is to be settled
    must be free as well."""
    if not pairs:
        return NONE
    work = Work(now)
    parents = sorted({parent_id for _, parent_id in pairs})
    work.load((yield call("lock_free_family", ids=parents)))
    known = sorted(work.tasks)
    gone = yield from _gone(parents, known)
    wanted = [pair for pair in pairs if pair[1] in work.tasks or pair[1] in gone]
    if not wanted:
        return NONE
    # Read when the parents are locked: an end that came before has settled what it saw.
    rows = yield call_rows("lock_unlinked_edges", wanted)
    ended = {i: work.tasks[i] for i in known if work.tasks[i].status in ENDED}
    affected = {row[0] for row in rows if not row[3] and (row[1] in ended or row[1] in gone)}
    held = yield from load_free(work, affected)
    rows = [row for row in rows if row[0] not in held]
    if not rows:
        return Links(0, {}, held)
    waiting: list[Edge] = [(row[0], row[1], row[2]) for row in rows if not row[3]]
    if known:
        yield call("mark_parents", ids=known)
    settled = [edge for edge in waiting if edge[1] in ended]
    yield from cascade.settle(work, ended, settled)
    yield from _settle_orphans(work, [edge for edge in waiting if edge[1] in gone])
    yield call_rows("link_edges", [(row[0], row[1]) for row in rows])
    yield from apply.finish(work, record_id, recorder, recorder.cascade_batch - len(settled))
    changed = {each.after.id for each in work.transitions}
    statuses = {task_id: work.tasks[task_id].status for task_id in changed}
    return Links(len(rows), statuses, held)


def _gone(parents: list[str], known: list[str]) -> Script[set[str]]:
    """The parents that were pruned. Another transaction holds the others that were not read."""
    missing = set(parents).difference(known)
    if not missing:
        return set()
    rows = yield call("get_tasks", ids=sorted(missing))
    return missing.difference(task.id for task in rows)


def _settle_orphans(work: Work, edges: list[Edge]) -> Script[None]:
    """Settles children whose parent ended and was pruned before they were settled. The children are
    locked."""
    settled = []
    for child_id, parent_id, policy in edges:
        verdict = dependency.orphaned(parent_id, DependencyPolicy(policy))
        apply.carry_out(work, Instruction(child_id, verdict))
        if verdict.satisfied:
            settled.append((child_id, parent_id))
    if settled:
        yield call_rows("settle_edges", settled)
