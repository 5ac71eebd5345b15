"""Tasks that wait for tasks.

Promises: unknown ids and cycles are refused at enqueue; a child is settled in its parent's transaction, or
soon after where more wait for one parent than a transaction settles;
an edge says what the parent's failure means (`fail`: the child fails too; `ignore`: it goes on), also when
the parent failed before the child was enqueued. A child that failed with a parent comes back when that one is
replayed and no other parent of it is dead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from graphlib import CycleError, TopologicalSorter

import msgspec

from holdfast.core.command import ChangeCause, Settle
from holdfast.core.task import ENDED, Status, Task
from holdfast.errors import DependencyCycle, UnknownDependency


class DependencyPolicy(StrEnum):
    """What a parent's failure does to the child."""

    FAIL = "fail"
    IGNORE = "ignore"


class Edge(msgspec.Struct, frozen=True):
    """Wait for a task."""

    parent_id: str
    policy: DependencyPolicy = DependencyPolicy.FAIL


def check_acyclic(edges: Mapping[str, Iterable[Edge]]) -> list[str]:
    """The ids of a batch, parents first; only within a batch can a cycle arise, since an older task
    cannot wait for a newer one."""
    graph = {child: {edge.parent_id for edge in found} for child, found in edges.items()}
    try:
        order = list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        path = " -> ".join(error.args[1])
        raise DependencyCycle(
            f"tasks wait for each other: {path}; remove one of the edges"
        ) from None
    return [task_id for task_id in order if task_id in edges]


def still_pending(
    child_id: str, edges: Iterable[Edge], parents: Mapping[str, Status]
) -> tuple[Edge, ...]:
    """The edges that are not met, given where the parents are: a parent is to come, or it is dead and the
    child fails with it."""
    pending = []
    for edge in edges:
        status = parents.get(edge.parent_id)
        if status is None:
            raise UnknownDependency(
                f"task {child_id} depends on {edge.parent_id}, which does not exist: "
                "enqueue it first, or in the same batch"
            )
        is_ignored = edge.policy is DependencyPolicy.IGNORE and status in ENDED
        if status is not Status.COMPLETED and not is_ignored:
            pending.append(edge)
    return tuple(pending)


class OpenEdge(msgspec.Struct, frozen=True):
    """An edge whose parent has not ended as the child needs it: it is to come, or it is dead."""

    parent_id: str
    policy: DependencyPolicy
    parent_status: Status | None
    """None when the parent's record was pruned."""

    @property
    def is_dead(self) -> bool:
        """Waiting for this parent would be waiting for a person, or for ever."""
        gone = self.parent_status in (None, Status.FAILED, Status.ABORTED)
        return gone and self.policy is DependencyPolicy.FAIL


def blame(parent_id: str, parent: Task | None) -> ChangeCause:
    """Why a child stays dead."""
    if parent is None:
        return ChangeCause(parent_id, "is gone", "its record was pruned")
    return ChangeCause(parent_id, parent.status.value, parent.why_ended)


def orphaned(parent_id: str, policy: DependencyPolicy) -> Settle:
    """What it means for a child that its parent was pruned before the two were tied: how the parent ended
    is not known any more."""
    message = "its record was pruned before this task came in"
    return Settle(parent_id, Status.FAILED, policy is DependencyPolicy.IGNORE, message)


def settlement(parent: Task, policy: DependencyPolicy) -> Settle:
    """What the parent's end means for a child on an edge with this policy."""
    satisfied = parent.status is Status.COMPLETED or policy is DependencyPolicy.IGNORE
    return Settle(parent.id, parent.status, satisfied, "" if satisfied else parent.why_ended)
