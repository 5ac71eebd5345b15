"""Operations on single tasks by operators: intervene, and the interventions of a task."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from holdfast.core.check import check_page, check_text
from holdfast.core.intervention import DryRun, Intervention, InterventionType
from holdfast.core.intervention_args import InterventionRequest, intervention_request
from holdfast.core.rights import Operation
from holdfast.core.wire import make_cursor, parse_id_cursor
from holdfast.gateway import redacting
from holdfast.gateway.operations.call import Answer, Call, stored
from holdfast.gateway.operations.tasks import readable
from holdfast.queue import views
from holdfast.queue.by import By
from holdfast.queue.details import TaskDetails
from holdfast.store.interventions import Act, Issued
from holdfast.sync.access.recorded import Recorded

O: Final = Operation  # noqa: E741


class InterventionBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An intervention to make."""

    type: str
    reason: str
    args: dict[str, Any] | None = None
    intervention_id: str | None = None
    requested_by: str = ""
    expected_version: int | None = None
    expires_in_seconds: float | None = None
    dry_run: bool = False


def operation_of(kind: str) -> Operation:
    """The right that an intervention of a type needs."""
    return O.TASKS_FORCE if kind == InterventionType.FORCE_STATUS else O.TASKS_INTERVENE


async def intervene(call: Call, task_id: str, body: InterventionBody) -> Answer:
    """Changes a task, and follows the runner that loses it."""
    seconds = body.expires_in_seconds
    request = intervention_request(
        body.type,
        body.reason,
        body.args,
        id=body.intervention_id,
        expires_seconds=call.services.expiry_seconds if seconds is None else seconds,
        requested_by=check_text("requested_by", body.requested_by, most=200),
        fallback_seconds=call.services.rules.reassign_fallback_seconds,
    )
    operation = operation_of(request.type)
    task = await readable(call, operation, task_id)
    actor = call.authorise(operation, project=task.project, noun="task", id=task_id).actor
    seen = await call.services.parts.tasks.details(task.id)
    with call.preconditions():
        outcome = await run(
            call,
            task.id,
            request,
            By(actor, request.reason, call.version(body.expected_version)),
            dry_run=body.dry_run,
            answer=lambda issued: _answer(call, issued, seen),
        )
    if isinstance(outcome, DryRun):
        return Answer({"dry_run": True, **views.dry_run(outcome)})
    return outcome


async def run(
    call: Call,
    task_id: str,
    request: InterventionRequest,
    by: By,
    *,
    dry_run: bool,
    answer: Callable[[Issued], Answer],
) -> Answer | DryRun:
    """Makes the intervention, or says what it would do. `answer` shows one that was made, also to a repeat
    with the key of the request. The intervention writes its own audit row."""
    use_cases = call.services.parts.interventions
    if dry_run:
        return await use_cases.foresee(task_id, request, by)
    operation = operation_of(request.type)
    repeatable = call.repeatable(operation)
    if repeatable is not None:
        beside = Recorded(
            lambda _outcome, _now: (),
            repeatable=repeatable,
            answer=lambda outcome: stored(answer(outcome)) if isinstance(outcome, Issued) else None,
        )
        by = msgspec.structs.replace(by, beside=beside)
    act = Act(operation.value, call.request_id)
    return answer(await use_cases.issue(task_id, request, by, act=act))


def _answer(call: Call, issued: Issued, seen: TaskDetails) -> Answer:
    body = {
        "intervention": _shown(call, issued.intervention),
        "task": redacting.task(call.services, issued.task, seen),
        "dry_run": False,
    }
    return Answer(body, version=issued.task.version)


def _shown(call: Call, row: Intervention) -> views.View:
    return redacting.intervention(call.services.redaction, views.intervention(row))


async def find(call: Call, task_id: str, *, after: str | None = None, limit: int = 100) -> Answer:
    """The interventions on a task, the latest first."""
    task = await readable(call, O.TASKS_READ, task_id)
    name = f"interventions {task.id}"
    last = None if after is None else parse_id_cursor(after, of=name)
    rows = await call.services.parts.interventions.list(
        task.id, after=last, limit=check_page(limit)
    )
    items = [_shown(call, row) for row in rows]
    more = make_cursor((rows[-1].id,), of=name) if len(rows) == limit else None
    return Answer({"items": items, "next": more})


async def get(call: Call, intervention_id: str) -> Answer:
    """One intervention, with the step that its runner has reached."""
    row = await of_readable_task(call, intervention_id)
    return Answer(_shown(call, row))


async def of_readable_task(call: Call, intervention_id: str) -> Intervention:
    call.authorise_any(O.TASKS_READ)
    row = await call.services.parts.interventions.get(intervention_id)
    call.authorise(O.TASKS_READ, project=row.project, noun="intervention", id=intervention_id)
    return row
