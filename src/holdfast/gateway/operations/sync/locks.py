"""Operations of locks of tasks and of interventions (`/api/v2/sync`)."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.core.check import check_number, check_page, check_text, check_whole
from holdfast.core.exchange.sync_errors import SyncError
from holdfast.core.intervention_args import intervention_request
from holdfast.core.rights import Operation
from holdfast.core.wire import WHOLE_MAX, make_cursor, parse_id_cursor
from holdfast.errors import Conflict, InProgress
from holdfast.gateway.operations.call import Answer, Call
from holdfast.gateway.operations.interventions import operation_of, run
from holdfast.gateway.operations.sync import views
from holdfast.gateway.operations.sync.nodes import Ack, acknowledge, commands
from holdfast.gateway.operations.sync.speaker import (
    named_task,
    refused,
    seen_task,
    speaker,
)
from holdfast.queue.by import By
from holdfast.store.interventions import Issued
from holdfast.sync.errors import AlreadyLocked, NotClaimable
from holdfast.sync.nodes.claims import TaskHeartbeat
from holdfast.sync.rows import read_sync_rows
from holdfast.sync.sync_task import row_of, view

O = Operation  # noqa: E741
ERRORS = {
    "version-conflict": SyncError.VERSION_CONFLICT,
    "idempotency-conflict": SyncError.MUTATION_REUSED,
    "not-locked": SyncError.NOT_LOCKED,
    "decision-needed": SyncError.HELD,
}
"""The names of refused interventions. Others are `INVALID_TRANSITION`."""


class ClaimBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    node_id: str | None = None
    lock_duration: int | None = None
    claim_id: str | None = None
    incarnation: int | None = None
    project_id: str | None = None


class BeatBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    node_id: str | None = None
    incarnation: int | None = None
    iteration: int | None = None
    progress: float | None = None
    phase: str | None = None
    fence: int | None = None
    claim_id: str | None = None
    lock_duration: int | None = None
    metrics: dict[str, float] = {}
    acks: list[Ack] = []


class ReleaseBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    node_id: str | None = None
    incarnation: int | None = None
    fence: int | None = None
    claim_id: str | None = None
    reason: str = ""


class InterveneBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    type: str
    task_id: str
    reason: str
    requested_by: str = ""
    project_id: str | None = None
    expected_version: int | None = None
    intervention_id: str | None = None
    expires_in_ms: int | None = None
    dry_run: bool = False
    args: dict[str, Any] = {}


def _seconds(field: str, millis: int | None) -> float | None:
    if millis is None:
        return None
    return check_whole(field, millis, least=0, most=WHOLE_MAX) / 1000


async def claim(call: Call, name: str, body: ClaimBody) -> Answer:
    """Locks a task for a node."""
    row, voice = await speaker(call, body.node_id, O.SYNC_RUN, incarnation=body.incarnation)
    found = await named_task(call, name, row.project)
    try:
        locked = await call.services.claims.claim(
            voice,
            found.task_id,
            lease_seconds=_seconds("lockDuration", body.lock_duration),
            claim_id=body.claim_id,
        )
    except AlreadyLocked as error:
        state = await seen_task(call, found.task_id)
        details = {
            "lockedBy": error.details.get("locked_by"),
            "lockedUntil": views.maybe_time(error.details.get("locked_until")),
            "lockedForMs": views.millis(error.details.get("locked_for_seconds", 0.0)),
        }
        return refused(call, SyncError.ALREADY_LOCKED, str(error), state, **details)
    except NotClaimable as error:
        state = await seen_task(call, found.task_id)
        return refused(call, SyncError.NOT_CLAIMABLE, str(error), state, reason=error.reason)
    call.services.wake()
    now = call.services.now()
    shown = views.task(locked.task, now)
    return Answer(
        {"success": True, "lock": shown["lock"], "task": shown, "serverClock": locked.clock}
    )


async def heartbeat(call: Call, name: str, body: BeatBody) -> Answer:
    """Extends a lock, reports, and brings commands, also when the lock is lost."""
    row, voice = await speaker(call, body.node_id, O.SYNC_RUN, incarnation=body.incarnation)
    found = await named_task(call, name, row.project)
    await acknowledge(call, voice, body.acks)
    report = TaskHeartbeat(
        fence=body.fence,
        claim_id=body.claim_id,
        lease_seconds=_seconds("lockDuration", body.lock_duration),
        progress=body.progress,
        phase=body.phase,
        iteration=body.iteration,
        metrics=body.metrics,
    )
    beat = await call.services.claims.beat(voice, found.task_id, report)
    brought = await commands(call, row)
    if beat.lost is not None:
        detail = f"node '{row.id}' does not hold the task: {beat.lost}"
        return refused(
            call, SyncError.LOCK_LOST, detail, beat.task, reason=beat.lost, commands=brought
        )
    shown = views.task(beat.task, call.services.now())
    return Answer(
        {
            "success": True,
            "expiresAt": shown["lock"]["expiresAt"],
            "expiresInMs": shown["lock"]["expiresInMs"],
            "fence": beat.task.fence,
            "version": beat.task.version,
            "desired": shown["desired"],
            "serverClock": beat.clock,
            "commands": brought,
        }
    )


async def release(call: Call, name: str, body: ReleaseBody) -> Answer:
    """Gives a task back. A repeat changes nothing."""
    row, voice = await speaker(call, body.node_id, O.SYNC_RUN, incarnation=body.incarnation)
    found = await named_task(call, name, row.project)
    released = await call.services.claims.release(
        voice, found.task_id, fence=body.fence, claim_id=body.claim_id, reason=body.reason
    )
    return Answer(
        {
            "success": True,
            "released": released.is_released,
            "task": views.task(released.task, call.services.now()),
            "serverClock": released.clock,
        }
    )


async def intervene(call: Call, body: InterveneBody) -> Answer:
    """Changes a task in the name of an operator; its runner gets a command."""
    found = await named_task(call, body.task_id, body.project_id)
    operation = operation_of(body.type)
    actor = call.authorise(operation, project=found.project, noun="task", id=body.task_id).actor
    seconds = _seconds("expiresInMs", body.expires_in_ms)
    request = intervention_request(
        body.type,
        body.reason,
        views.read_args(body.type, body.args),
        id=body.intervention_id,
        expires_seconds=call.services.expiry_seconds
        if seconds is None
        else check_number("expiresInMs", seconds, least=1.0),
        requested_by=check_text("requestedBy", body.requested_by, most=200),
        fallback_seconds=call.services.rules.reassign_fallback_seconds,
    )
    rows = await call.services.store.read(lambda: read_sync_rows([found.task_id]))

    def answer(issued: Issued) -> Answer:
        state = view(issued.task, row_of(issued.task, rows))
        intervention = {**views.intervention(issued.intervention), "taskId": state.id}
        task = views.task(state, call.services.now())
        return Answer(
            {"success": True, "intervention": intervention, "task": task, "dryRun": False}
        )

    by = By(actor, request.reason, body.expected_version)
    try:
        outcome = await run(call, found.task_id, request, by, dry_run=body.dry_run, answer=answer)
    except InProgress:
        raise
    except Conflict as error:
        state = await seen_task(call, found.task_id)
        name = ERRORS.get(error.code, SyncError.INVALID_TRANSITION)
        kind = f"urn:holdfast:error:{error.code}"
        return refused(call, name, str(error), state, code=error.code, type=kind)
    if isinstance(outcome, Answer):
        return outcome
    state = await seen_task(call, found.task_id)
    shown = {**views.dry_run(outcome), "taskId": state.id}
    return Answer(
        {"success": True, **shown, "task": views.task(state, call.services.now()), "dryRun": True}
    )


async def interventions(call: Call, name: str, limit: int, after: str | None) -> Answer:
    """The interventions on a task, newest first."""
    found = await named_task(call, name, None)
    call.authorise(O.TASKS_READ, project=found.project, noun="task", id=name)
    check_page(limit)
    place = f"interventions:{found.task_id}"
    start = None if after is None else parse_id_cursor(after, of=place)
    rows = await call.services.store.interventions.of_task(found.task_id, after=start, limit=limit)
    next_cursor = make_cursor((rows[-1].id,), of=place) if len(rows) == limit else None
    return Answer(
        {
            "taskId": name,
            "interventions": [{**views.intervention(row), "taskId": name} for row in rows],
            "nextCursor": next_cursor,
        }
    )
