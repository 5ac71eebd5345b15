"""Operations on conflicts: list, read, settle."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from holdfast.core.check import check_choice, check_page
from holdfast.core.rights import Operation
from holdfast.core.wire import check_project, make_cursor, parse_id_cursor
from holdfast.errors import NotFound
from holdfast.gateway.operations.call import Answer, Call, missing
from holdfast.gateway.operations.terms import read_terms
from holdfast.queue import views
from holdfast.queue.details import TaskDetails
from holdfast.sync import views as hub_views
from holdfast.sync.exchange.conflicts import Conflict, Settled, Take

O: Final = Operation  # noqa: E741
STATE: Final = "state"
PROJECT: Final = "project"
USAGE: Final = "state:open, state:settled and project:NAME"


class SettleBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How a conflict ends. `merged` has payload, metadata and labels."""

    take: str
    merged: dict[str, Any] | None = None
    reason: str = ""
    expected_version: int | None = None


async def find(call: Call, *, q: str = "", after: str | None = None, limit: int = 100) -> Answer:
    """Conflicts that match `q`: `state:open`, `project:web`."""
    call.authorise_any(O.CONFLICTS_READ)
    terms = read_terms(q, (STATE, PROJECT), USAGE)
    projects = None if call.projects is None else sorted(call.projects)
    if (project := terms.get(PROJECT)) is not None:
        check_project(PROJECT, project)
        call.authorise(O.CONFLICTS_READ, project=project, noun="project", id=project)
        projects = [project]
    place = f"conflicts {q}"
    rows = await call.services.conflicts.find(
        projects,
        state=terms.get(STATE),
        after="" if after is None else parse_id_cursor(after, of=place),
        limit=check_page(limit),
    )
    more = make_cursor((rows[-1].id,), of=place) if len(rows) == limit else None
    return Answer({"items": [hub_views.conflict_row(row) for row in rows], "next": more})


async def get(call: Call, conflict_id: str) -> Answer:
    """One conflict with both sides, and what both began with as far as it is kept."""
    conflict = await _readable(call, O.CONFLICTS_READ, conflict_id)
    events = await call.services.store.feed.history(conflict.task_id)
    return Answer(hub_views.conflict(conflict, events), version=conflict.version)


async def settle(call: Call, conflict_id: str, body: SettleBody) -> Answer:
    """Ends a conflict with one of its sides, or with a third content."""
    conflict = await _readable(call, O.CONFLICTS_SETTLE, conflict_id)
    take = check_choice("take", body.take, Take)
    has_task = await call.services.parts.tasks.look_up(conflict.task_id) is not None
    details = await call.services.parts.tasks.details(conflict.task_id) if has_task else None

    def answer(settled: Settled) -> Answer:
        return _settled(settled, call.services.now(), details)

    by = call.by(
        O.CONFLICTS_SETTLE,
        project=conflict.project,
        subject=conflict_id,
        actor=call.authorise(O.CONFLICTS_SETTLE, project=conflict.project).actor,
        reason=body.reason,
        expected_version=body.expected_version,
        answer=answer,
        detail={"take": take.value, "task": conflict.task_id},
    )
    with call.preconditions():
        settled = await call.services.conflicts.settle(conflict_id, take, by, merged=body.merged)
    call.services.wake()
    return answer(settled)


def _settled(settled: Settled, now: float, details: TaskDetails | None) -> Answer:
    conflict, task = settled.conflict, settled.stored
    shown = None if task is None else views.task(task, now, details)
    return Answer(
        {"conflict": hub_views.conflict(conflict), "task": shown}, version=conflict.version
    )


async def _readable(call: Call, operation: Operation, conflict_id: str) -> Conflict:
    call.authorise_any(operation)
    try:
        conflict = await call.services.conflicts.get(conflict_id)
    except NotFound:
        raise missing("conflict", conflict_id) from None
    call.authorise(operation, project=conflict.project, noun="conflict", id=conflict_id)
    return conflict
