"""Claims of one task by its id: what a node asks, and whether it gets the task.

Promises: a claim with the id of the claim that holds the task gets the same answer, with the same fence. A
lease that has ended gives the task away only after it has expired (`upkeep_rules.expire`).
Never: waits. A task that cannot be claimed is refused with the reason.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from holdfast.core import gate
from holdfast.core.task import LEASED, Status, Task
from holdfast.core.transition import Refusal


class ClaimById(msgspec.Struct, frozen=True):
    """The request of a node for one task."""

    task_id: str
    node: str
    claim_id: str
    lease_seconds: float


class NotClaimable(StrEnum):
    """What prevents a claim. The `reason` of a refusal with the code `not-claimable`."""

    BLOCKED = "blocked"
    HELD = "held"
    DECISION = "decision"
    NOT_DUE = "not_due"
    ASSIGNED = "assigned"
    LIMIT = "limit"
    QUEUE_PAUSED = "queue_paused"
    FAILED = "failed"
    COMPLETED = "completed"
    ABORTED = "aborted"


TEXTS: Final[dict[NotClaimable, str]] = {
    NotClaimable.BLOCKED: "it waits for other tasks",
    NotClaimable.HELD: "it is held: resume it first",
    NotClaimable.DECISION: "it waits for a decision",
    NotClaimable.NOT_DUE: "it is not due yet",
    NotClaimable.ASSIGNED: "it is reserved for another node",
    NotClaimable.LIMIT: "a limit of it is full",
    NotClaimable.QUEUE_PAUSED: "its queue is paused",
    NotClaimable.FAILED: "it is a dead letter: replay it first",
    NotClaimable.COMPLETED: "it has ended",
    NotClaimable.ABORTED: "it has ended",
}


def implied_claim(task: Task, node: str, incarnation: int) -> str:
    """The claim id of a request that names none. A node that has resumed such a claim after a restart still
    holds it under the name of the earlier incarnation."""
    held = task.claim_id if task.status in LEASED and task.node == node else None
    if held is not None and held.startswith(f"{node}#") and held[len(node) + 1 :].isdecimal():
        return held
    return f"{node}#{incarnation}"


def holds(task: Task, request: ClaimById) -> bool:
    """Whether the claim of this request holds the task already."""
    return (
        task.status in LEASED
        and task.node == request.node
        and task.claim_id == request.claim_id
        and task.lease_until is not None
    )


def has_expired(task: Task, now: float) -> bool:
    """Whether a runner holds the task by a lease that has ended."""
    return task.lease_until is not None and task.lease_until <= now


def refusal(task: Task, request: ClaimById, now: float, *, queue_paused: bool) -> Refusal | None:
    """Why the node does not get the task. None: it may claim it, as far as limits allow."""
    if task.status in LEASED:
        text = f"task {task.id} is {task.status}: node {task.node} holds it"
        return Refusal(task.id, "already-locked", text, (), task)
    reason = _reason(task, request.node, now, queue_paused=queue_paused)
    return None if reason is None else not_claimable(task, reason)


def not_claimable(task: Task, reason: NotClaimable) -> Refusal:
    text = f"task {task.id} cannot be claimed: {TEXTS[reason]}"
    return Refusal(task.id, "not-claimable", text, (), task, reason.value)


def _reason(task: Task, node: str, now: float, *, queue_paused: bool) -> NotClaimable | None:
    if task.status is Status.PAUSED:
        is_decision = gate.decision_of(task) is not None and task.held_by is None
        return NotClaimable.DECISION if is_decision else NotClaimable.HELD
    if task.status is not Status.QUEUED:
        return NotClaimable(task.status.value)
    if gate.is_held(task):
        return NotClaimable.HELD
    if gate.is_assigned(task, now) and task.assigned_to != node:
        return NotClaimable.ASSIGNED
    if gate.is_limit(task.gate):
        return NotClaimable.LIMIT
    if task.due_at > now:
        return NotClaimable.NOT_DUE
    return NotClaimable.QUEUE_PAUSED if queue_paused else None
