"""Dependencies between tasks.

Promises: unknown ids and cycles are refused at enqueue. A child is settled in its parent's transaction, or
soon after when the parent has more children than one transaction settles. An edge says what the parent's
failure means (`fail`: the child fails too; `ignore`: the child goes on), also when the parent failed before
the child was enqueued. A child that failed with a parent is revived when that parent is replayed and no other
parent is dead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Literal

import msgspec

from holdfast.core.command import ChangeCause, Settle
from holdfast.core.task import ENDED, Status, Task
from holdfast.errors import DependencyCycle, UnknownDependency


class DependencyPolicy(StrEnum):
    """What a parent's failure means for the child."""

    FAIL = "fail"
    IGNORE = "ignore"


class Edge(msgspec.Struct, frozen=True):
    """A dependency on a task."""

    parent_id: str
    policy: DependencyPolicy = DependencyPolicy.FAIL
    """An enqueue turns the names 'fail' and 'ignore' into a policy."""

    if TYPE_CHECKING:

        def __init__(
            self,
            parent_id: str,
            policy: DependencyPolicy | Literal["fail", "ignore"] = DependencyPolicy.FAIL,
        ) -> None: ...


def check_acyclic(edges: Mapping[str, Iterable[Edge]]) -> list[str]:
    """The ids of a batch, parents first. Only a batch can contain a cycle: an older task cannot depend on a
    newer one."""
    graph = {child: {edge.parent_id for edge in parents} for child, parents in edges.items()}
    try:
        ids = list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        path = " -> ".join(error.args[1])
        raise DependencyCycle(
            f"tasks depend on each other: {path}; remove one of the edges"
        ) from None
    return [task_id for task_id in ids if task_id in edges]


def still_pending(
    child_id: str, edges: Iterable[Edge], parents: Mapping[str, Status]
) -> tuple[Edge, ...]:
    """The edges that are not satisfied, given the statuses of the parents. The parent of such an edge has not
    ended yet, or it is dead and the child fails with it."""
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
    """An edge that is not satisfied: its parent has not ended yet, or is dead."""

    parent_id: str
    policy: DependencyPolicy
    parent_status: Status | None
    """None when the parent's record was pruned."""

    @property
    def is_dead(self) -> bool:
        """Whether the parent cannot complete unless an operator acts, and the child fails with it."""
        cannot_complete = self.parent_status in (None, Status.FAILED, Status.ABORTED)
        return cannot_complete and self.policy is DependencyPolicy.FAIL


def change_cause(parent_id: str, parent: Task | None) -> ChangeCause:
    """The command that makes this parent the cause of a child's failure."""
    if parent is None:
        return ChangeCause(parent_id, "is gone", "its record was pruned")
    return ChangeCause(parent_id, parent.status.value, parent.why_ended, _group(parent))


def orphaned(parent_id: str, policy: DependencyPolicy) -> Settle:
    """How a child is settled when its parent was pruned before the edge was written. The parent's outcome is
    not known any more."""
    message = "its record was pruned before this task was enqueued"
    return Settle(parent_id, Status.FAILED, policy is DependencyPolicy.IGNORE, message)


def settlement(parent: Task, policy: DependencyPolicy) -> Settle:
    """How a child is settled when its parent has ended."""
    satisfied = parent.status is Status.COMPLETED or policy is DependencyPolicy.IGNORE
    if satisfied:
        return Settle(parent.id, parent.status, True)
    return Settle(parent.id, parent.status, False, parent.why_ended, _group(parent))


def _group(parent: Task) -> str:
    """The group of a dead letter: its dependents have the same cause, whatever the length of the chain."""
    return (parent.fingerprint or "") if parent.status is Status.FAILED else ""
