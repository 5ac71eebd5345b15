"""Claims of tasks that a node names, or that are reserved for it.

Promises: the task is locked while it is judged, limits included. A repeated claim renews its lease and gets
the same fence. Never: takes a task whose lease has ended; it has to expire first.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from holdfast.core import claim_by_id as rules, decide
from holdfast.core.claim_by_id import ClaimById, NotClaimable
from holdfast.core.claiming import Claimed, ClaimRequest
from holdfast.core.gate import of_reserved
from holdfast.core.task import RunId, Task
from holdfast.core.transition import Refusal, Transition
from holdfast.store.script import Script, call, call_rows
from holdfast.store.scripts import claim as claims, limits as limit_scripts
from holdfast.store.scripts.work import Recorder, Work


class HeldAlready(msgspec.Struct, frozen=True):
    """The answer to a repeated claim: the task, with its renewed lease."""

    task: Task


class Ended(msgspec.Struct, frozen=True):
    """The run that held the task. Its lease has ended, and it must expire first."""

    run: RunId


Answer = Transition | HeldAlready | Ended | Refusal


def claim_by_id(
    request: ClaimById, *, now: float, record_id: int, recorder: Recorder
) -> Script[Answer]:
    """Claims one task, in one transaction."""
    work = Work(now)
    work.load((yield call("lock_tasks", ids=[request.task_id])))
    answer = yield from claim_loaded(work, request)
    if isinstance(answer, Transition):
        yield from work.save(recorder, record_id)
    return answer


def claim_loaded(work: Work, request: ClaimById) -> Script[Answer]:
    """Claims a task that this transaction has locked. The caller saves the work."""
    task = work.tasks.get(request.task_id)
    if task is None:
        text = f"task {request.task_id} does not exist"
        return Refusal(request.task_id, "not-found", text)
    now = work.now
    if rules.has_expired(task, now):
        return Ended(task.run)
    if rules.holds(task, request):
        until = now + request.lease_seconds
        rows: list[tuple[Any, ...]] = [(task.id, task.fence)]
        yield call_rows("extend_leases", rows, until=until)
        return HeldAlready(replace(task, lease_until=until))
    paused = yield call("paused_queue", name=task.queue)
    refused = rules.refusal(task, request, now, queue_paused=bool(paused))
    if refused is not None:
        return refused
    if task.limits and not (yield from _admitted(work, task)):
        return rules.not_claimable(task, NotClaimable.LIMIT)
    moved = decide.claim(
        task,
        node=request.node,
        lease_seconds=request.lease_seconds,
        now=now,
        claim_id=request.claim_id,
    )
    work.move(moved)
    return moved


def _admitted(work: Work, task: Task) -> Script[bool]:
    """Takes the permits of the task's limits. Tasks that are parked before it go first."""
    limits = yield from claims.lock_briefly([task])
    admission = yield from limit_scripts.admission_of(work, [task], limits)
    is_admitted = admission.admit(task) is None
    if is_admitted:
        yield from limit_scripts.save(limits, work.now)
    return is_admitted


def claim_assigned(
    claim: ClaimRequest, *, now: float, record_id: int, recorder: Recorder
) -> Script[Claimed]:
    """Claims tasks that are reserved for this node."""
    reserved: list[Task] = []
    for gate in of_reserved(claim.node):
        reserved += yield call("parked_tasks", gate=gate, limit=claim.limit)
    paused = set[str]()
    for queue in sorted({task.queue for task in reserved}):
        if (yield call("paused_queue", name=queue)):
            paused.add(queue)
    ready = [
        task
        for task in reserved
        if task.due_at <= now
        and task.queue not in paused
        and task.type in claim.types
        and task.queue in claim.queues
        and (claim.projects is None or task.project in claim.projects)
    ]
    limits = yield from claims.lock_briefly(ready)
    return (
        yield from claims.claim_these(
            ready, claim, limits, now=now, record_id=record_id, recorder=recorder
        )
    )
