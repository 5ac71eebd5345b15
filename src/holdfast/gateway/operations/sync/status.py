"""Operations of monitoring and repair (`/api/v2/sync`)."""

from __future__ import annotations

import msgspec

from holdfast.core.access import ALL_PROJECTS
from holdfast.core.rights import Operation
from holdfast.core.wire import make_cursor, parse_cursor
from holdfast.errors import InvalidInput
from holdfast.gateway.operations.call import Answer, Call
from holdfast.gateway.operations.sync import views
from holdfast.sync.status import Monitor

O = Operation  # noqa: E741
ID_DIGITS_MAX = 16


class FixBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    project_id: str | None = None
    limit: int = 100
    dry_run: bool = False


async def status(call: Call, project: str) -> Answer:
    """The figures of a project, from counters."""
    call.authorise(O.SYNC_STATUS, project=project, noun="project", id=project)
    seen = await Monitor(call.services.store, call.services.rules).status(project)
    keep_events = call.services.queue.settings.keep_events
    return Answer(views.status(seen, call.services.now(), keep_events=keep_events))


async def log(
    call: Call,
    project: str,
    *,
    after: str | None,
    limit: int,
    task_id: str | None,
    node_id: str | None,
    outcome: str | None,
    latest: bool = False,
) -> Answer:
    """The log of a project, oldest first. `after`: a cursor, or the id of an entry. `latest`: the last
    entries in place of a page."""
    call.authorise(O.SYNC_LOG, project=project, noun="project", id=project)
    if latest and after is not None:
        raise InvalidInput("give either after or latest: the latest entries begin nowhere")
    place = f"log:{project}:{task_id}:{node_id}:{outcome}"
    if after is not None and after.isdigit() and len(after) < ID_DIGITS_MAX:
        start = int(after)
    else:
        start = 0 if after is None else int(parse_cursor(after, of=place)[0] or 0)
    entries = await Monitor(call.services.store, call.services.rules).log(
        project,
        after=None if latest else start,
        limit=limit,
        task_id=task_id,
        node=node_id,
        outcome=outcome,
    )
    has_more = len(entries) == limit and not latest
    next_cursor = make_cursor((entries[-1].id,), of=place) if has_more else None
    return Answer(
        {
            "projectId": project,
            "entries": [views.log_entry(entry) for entry in entries],
            "nextCursor": next_cursor,
        }
    )


async def fix_expired_locks(call: Call, body: FixBody) -> Answer:
    """Ends the runs whose lease has ended: the sweeper's own step, run now."""
    project = ALL_PROJECTS if body.project_id is None else body.project_id
    call.authorise(O.SYNC_REPAIR, project=project, noun="project", id=project)
    fixed = await Monitor(call.services.store, call.services.rules).fix_expired(
        body.project_id, limit=body.limit, dry_run=body.dry_run
    )
    if fixed.locks and not body.dry_run:
        call.services.wake()
    return Answer(
        {
            "success": True,
            "fixed": len(fixed.locks),
            "dryRun": body.dry_run,
            "tasks": [views.fixed_lock(lock) for lock in fixed.locks],
            "more": fixed.has_more,
        }
    )
