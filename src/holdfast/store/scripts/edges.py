"""Links dependency edges that were inserted unlinked.

Some transactions must not lock a parent: the caller's transaction, and one that may have to wait for
another. Such a transaction inserts its children blocked and their edges unlinked. The parent's row does not
yet say that it has dependents, and the parent may end meanwhile. A short transaction links the edges later.
It locks the parent, marks that it has dependents, and settles the children if the parent has ended. So
either the end of the parent sees the edge, or the link sees the end of the parent.

Promises: a parent that another transaction holds is skipped until the next run and delays no other parent;
the same holds for a child that has to be settled. Each edge is settled once, even if several nodes link at
the same time. A link touches only the children that it links, so a child that cannot be settled fails only
the links that name it.
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
    """The result of one pass over unlinked edges."""

    done: int
    is_all: bool
    """Whether no unlinked edge is left. Edges are left when other transactions hold their parents, or when
    there are more than `limit`."""


class Links(NamedTuple):
    """The result of one link."""

    done: int
    statuses: dict[str, Status]
    """New statuses of the tasks that the link changed."""
    held: frozenset[str] = frozenset()
    """Children that were skipped because other transactions hold them."""


NONE: Final = Links(0, {})
LOOKS_MAX: Final = 10
"""How many batches of held children one pass skips before it stops."""


def look(limit: int, without: Collection[str]) -> Script[list[Pair]]:
    """Unlinked edges whose parents no other transaction holds. `without`: children to leave out."""
    rows = yield call("unlinked_edges", limit=limit, without=sorted(without))
    return [(row[0], row[1]) for row in rows]


def is_any(without: Collection[str]) -> Script[bool]:
    """Whether an edge is unlinked, even if another transaction holds its parent."""
    return bool((yield call("any_unlinked", without=sorted(without))))


def link_some(
    *, now: float, record_id: int, recorder: Recorder, limit: int, without: Collection[str]
) -> Script[Linked]:
    """Links up to `limit` unlinked edges. `without`: children to leave out."""
    passed_over, links = set(without), NONE
    for _ in range(LOOKS_MAX):
        pairs = yield from look(limit, passed_over)
        links = yield from link(pairs, now=now, record_id=record_id, recorder=recorder)
        if links.done or not links.held:
            break
        passed_over |= links.held
    return Linked(links.done, not (yield from is_any(without)))


def link(pairs: Sequence[Pair], *, now: float, record_id: int, recorder: Recorder) -> Script[Links]:
    """Links these edges, as far as they are still unlinked and no other transaction holds the parent. A child
    that has to be settled must not be held either."""
    if not pairs:
        return NONE
    work = Work(now)
    parents = sorted({parent_id for _, parent_id in pairs})
    work.load((yield call("lock_free_family", ids=parents)))
    locked = sorted(work.tasks)
    gone = yield from _gone(parents, locked)
    reachable = [pair for pair in pairs if pair[1] in work.tasks or pair[1] in gone]
    if not reachable:
        return NONE
    # Read under the locks of the parents: a parent that ended earlier has settled the edges it saw.
    rows = yield call_rows("lock_unlinked_edges", reachable)
    ended = {i: work.tasks[i] for i in locked if work.tasks[i].status in ENDED}
    affected = {row[0] for row in rows if not row[3] and (row[1] in ended or row[1] in gone)}
    held = yield from load_free(work, affected)
    rows = [row for row in rows if row[0] not in held]
    if not rows:
        return Links(0, {}, held)
    waiting: list[Edge] = [(row[0], row[1], row[2]) for row in rows if not row[3]]
    if locked:
        yield call("mark_parents", ids=locked)
    settled = [edge for edge in waiting if edge[1] in ended]
    yield from cascade.settle(work, ended, settled)
    yield from _settle_orphans(work, [edge for edge in waiting if edge[1] in gone])
    yield call_rows("link_edges", [(row[0], row[1]) for row in rows])
    yield from apply.finish(work, record_id, recorder, recorder.cascade_batch - len(settled))
    changed = {transition.after.id for transition in work.transitions}
    statuses = {task_id: work.tasks[task_id].status for task_id in changed}
    return Links(len(rows), statuses, held)


def _gone(parents: list[str], locked: list[str]) -> Script[set[str]]:
    """The parents that were pruned. The other missing ones exist, and another transaction holds them."""
    missing = set(parents).difference(locked)
    if not missing:
        return set()
    rows = yield call("get_tasks", ids=sorted(missing))
    return missing.difference(task.id for task in rows)


def _settle_orphans(work: Work, edges: list[Edge]) -> Script[None]:
    """Settles locked children whose parent ended and was pruned before its edge was settled."""
    settled = []
    for child_id, parent_id, policy in edges:
        verdict = dependency.orphaned(parent_id, DependencyPolicy(policy))
        apply.carry_out(work, Instruction(child_id, verdict))
        if verdict.satisfied:
            settled.append((child_id, parent_id))
    if settled:
        yield call_rows("settle_edges", settled)
