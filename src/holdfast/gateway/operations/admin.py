"""Operations on queues, schedules and locks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from holdfast.core.access import ALL_PROJECTS
from holdfast.core.check import check_page, check_text
from holdfast.core.lease import Audit
from holdfast.core.queue_pause import QueuePause
from holdfast.core.rights import Operation
from holdfast.core.schedule import Schedule, next_fires
from holdfast.core.task import Task
from holdfast.core.wire import make_cursor, parse_id_cursor
from holdfast.errors import NotFound
from holdfast.gateway import redacting
from holdfast.gateway.operations.call import Answer, Call, missing, stored
from holdfast.queue import views
from holdfast.queue.by import By
from holdfast.queue.queues import QueueView
from holdfast.store.store import Inserted, Store
from holdfast.sync.access.recorded import RecordedInsert

O: Final = Operation  # noqa: E741
UPCOMING: Final = 10
"""Firings that the answer for one schedule names."""


class ReasonBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Why a change is made."""

    reason: str = ""


class ChangeBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Why a change is made, and of which version."""

    reason: str = ""
    expected_version: int | None = None


class ScheduleBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A schedule to add or to change."""

    spec: str
    type: str
    payload: Any = None
    timezone: str = "UTC"
    queue: str | None = None
    priority: str | int | None = None
    project: str | None = None
    expected_version: int | None = None
    reason: str = ""


class BackfillBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The past times of a schedule that get their tasks: from `since` on, before `until`."""

    since: str
    until: str | None = None
    reason: str = ""


# -- queues -----------------------------------------------------------------------------------------


async def list_queues(call: Call) -> Answer:
    call.authorise_any(O.QUEUES_READ)
    rows = [_shown(call, view) for view in await _queues(call)]
    return Answer({"items": rows, "next": None})


def _shown(call: Call, view: QueueView) -> views.View:
    """The queue. The reason of its pause has no secrets."""
    return redacting.texts(call.services.redaction, views.queue(view), ("reason",))


async def get_queue(call: Call, name: str) -> Answer:
    call.authorise_any(O.QUEUES_READ)
    view = await _queue(call, name)
    return Answer(_shown(call, view), version=view.version)


async def pause_queue(call: Call, name: str, body: ChangeBody) -> Answer:
    return await _change_queue(call, name, body, pause=True)


async def resume_queue(call: Call, name: str, body: ChangeBody) -> Answer:
    return await _change_queue(call, name, body, pause=False)


async def _change_queue(call: Call, name: str, body: ChangeBody, *, pause: bool) -> Answer:
    actor = call.authorise_store(O.QUEUES_PAUSE).actor
    before = await _queue(call, name)
    answers: list[Answer] = []

    def answer(after: QueuePause) -> Answer:
        view = msgspec.structs.replace(
            before,
            paused_at=after.paused_at,
            paused_by=after.paused_by,
            reason=after.reason,
            version=after.version,
        )
        answers.append(Answer(_shown(call, view), version=view.version))
        return answers[-1]

    by = call.by(
        O.QUEUES_PAUSE,
        project=ALL_PROJECTS,
        subject=name,
        actor=actor,
        reason=body.reason,
        expected_version=body.expected_version,
        answer=answer,
        detail={"paused": pause},
    )
    queues = call.services.parts.queues
    with call.preconditions():
        await (queues.pause(name, by) if pause else queues.resume(name, by))
    return answers[-1]


async def _queue(call: Call, name: str) -> QueueView:
    for view in await _queues(call):
        if view.name == name:
            return view
    if name == "default":
        return QueueView(name, {})
    raise NotFound(f"there is no queue '{name}': see the list of queues")


async def _queues(call: Call) -> list[QueueView]:
    """The queues with the counts of the principal's projects."""
    rows = await call.services.parts.queues.list()
    return await counted(call.services.store, rows, call.projects)


async def counted(
    store: Store, rows: list[QueueView], projects: frozenset[str] | None
) -> list[QueueView]:
    """The queues with the counts of these projects. None: of all."""
    if projects is None:
        return rows
    counts: dict[str, dict[str, int]] = {}
    for project in sorted(projects):
        for queue, status, n in await store.feed.project_counters(project):
            of_queue = counts.setdefault(queue, {})
            of_queue[status] = of_queue.get(status, 0) + n
    return [msgspec.structs.replace(row, counts=counts.get(row.name, {})) for row in rows]


# -- schedules --------------------------------------------------------------------------------------


async def list_schedules(call: Call) -> Answer:
    """The schedules of the principal's projects."""
    call.authorise_any(O.SCHEDULES_READ)
    rows = await call.services.parts.schedules.list()
    shown = [row for row in rows if call.projects is None or row.project in call.projects]
    return Answer({"items": [views.schedule(row) for row in shown], "next": None})


async def get_schedule(call: Call, name: str) -> Answer:
    """One schedule, with its next firings if it is not paused."""
    schedule = await _schedule(call, O.SCHEDULES_READ, name)
    upcoming: list[float] = []
    if not schedule.paused:
        later = next_fires(schedule.spec, schedule.timezone, schedule.next_at, UPCOMING - 1)
        upcoming = [schedule.next_at, *later]
    return Answer(views.schedule(schedule, upcoming), version=schedule.version)


async def put_schedule(call: Call, name: str, body: ScheduleBody) -> Answer:
    """Adds a schedule, or changes it. It stays in its project."""
    project = call.home if body.project is None else body.project
    by = _schedule_by(
        call,
        name,
        body,
        project=project,
        detail={"spec": body.spec, "type": body.type},
    )
    with call.preconditions():
        await call.services.parts.schedules.put(
            name,
            by,
            spec=body.spec,
            type=body.type,
            payload=body.payload,
            timezone=body.timezone,
            queue=body.queue,
            priority=body.priority,
            project=project,
        )
    return _answer(await _schedule(call, O.SCHEDULES_READ, name))


async def remove_schedule(call: Call, name: str, *, reason: str = "") -> Answer:
    call.authorise_any(O.SCHEDULES_WRITE)
    schedule = await call.services.parts.schedules.find(name)
    if schedule is None and call.key is None:
        raise missing("schedule", name)
    # A repeat finds nothing any more: its answer is stored.
    project = call.home if schedule is None else schedule.project
    call.authorise(O.SCHEDULES_WRITE, project=project, noun="schedule", id=name)
    removed: list[Schedule] = []
    by = _schedule_by(
        call,
        name,
        ChangeBody(reason),
        project=project,
        detail={"removed": True},
        outcomes=removed,
    )
    try:
        with call.preconditions():
            await call.services.parts.schedules.remove(name, by)
    except NotFound:
        raise missing("schedule", name) from None
    return _answer(removed[-1])


async def pause_schedule(call: Call, name: str, body: ChangeBody) -> Answer:
    schedule = await _schedule(call, O.SCHEDULES_WRITE, name)
    by = _schedule_by(call, name, body, project=schedule.project, detail={"paused": True})
    with call.preconditions():
        return _answer(await call.services.parts.schedules.pause(name, by))


async def resume_schedule(call: Call, name: str, body: ChangeBody) -> Answer:
    schedule = await _schedule(call, O.SCHEDULES_WRITE, name)
    by = _schedule_by(call, name, body, project=schedule.project, detail={"paused": False})
    with call.preconditions():
        return _answer(await call.services.parts.schedules.resume(name, by))


async def run_schedule(call: Call, name: str, body: ReasonBody) -> Answer:
    """Enqueues the task of a schedule now. The schedule stays as it is."""
    schedule = await _schedule(call, O.SCHEDULES_WRITE, name)
    allowed = call.authorise(O.SCHEDULES_WRITE, project=schedule.project)

    def answer(made: Task) -> Answer:
        return Answer({"task": redacting.task(call.services, made)}, 201, made.version)

    beside = RecordedInsert(
        lambda rows, tasks: stored(answer(tasks[rows[0].task_id])),
        repeatable=call.repeatable(O.SCHEDULES_WRITE),
        entries=call.entries(
            O.SCHEDULES_WRITE,
            project=schedule.project,
            subject=name,
            actor=allowed.actor,
            reason=body.reason,
            detail={"run": True},
        ),
    )
    made = await call.services.parts.schedules.run(
        name, By(allowed.actor, body.reason, None, beside)
    )
    return answer(made)


async def backfill_schedule(call: Call, name: str, body: BackfillBody) -> Answer:
    """Enqueues a task for each past time of a schedule in a range. A time that was backfilled before keeps
    its task."""
    schedule = await _schedule(call, O.SCHEDULES_WRITE, name)
    allowed = call.authorise(O.SCHEDULES_WRITE, project=schedule.project)
    schedules = call.services.parts.schedules
    plan = await schedules.plan(name, body.since, body.until)

    def answer(rows: Sequence[Inserted]) -> Answer:
        items = [
            {
                "at": views.at(at),
                "id": row.task_id,
                "status": row.status.value,
                "created": row.created,
            }
            for at, row in zip(plan.times, rows, strict=True)
        ]
        return Answer({"items": items, "created": sum(row.created for row in rows)})

    beside = RecordedInsert(
        lambda rows, _: stored(answer(rows)),
        repeatable=call.repeatable(O.SCHEDULES_WRITE),
        entries=call.entries(
            O.SCHEDULES_WRITE,
            project=schedule.project,
            subject=name,
            actor=allowed.actor,
            reason=body.reason,
            detail={"backfill": [views.at(at) for at in plan.range], "times": len(plan.times)},
        ),
    )
    by = By(allowed.actor, check_text("reason", body.reason), None, beside)
    return answer(await schedules.backfill(plan, by))


async def _schedule(call: Call, operation: Operation, name: str) -> Schedule:
    """The schedule, if the principal may do this with it. One of a foreign project does not exist."""
    call.authorise_any(operation)
    schedule = await call.services.parts.schedules.find(name)
    if schedule is None:
        raise missing("schedule", name)
    call.authorise(operation, project=schedule.project, noun="schedule", id=name)
    return schedule


def _answer(schedule: Schedule) -> Answer:
    return Answer(views.schedule(schedule), version=schedule.version)


def _schedule_by(
    call: Call,
    name: str,
    body: ChangeBody | ScheduleBody,
    *,
    project: str,
    detail: object,
    outcomes: list[Schedule] | None = None,
) -> By:
    """Who changes the schedule. `outcomes` gets the schedule that the change answers with."""

    def answer(schedule: Schedule) -> Answer:
        if outcomes is not None:
            outcomes.append(schedule)
        return _answer(schedule)

    allowed = call.authorise(O.SCHEDULES_WRITE, project=project, noun="project", id=project)
    return call.by(
        O.SCHEDULES_WRITE,
        project=project,
        subject=name,
        actor=allowed.actor,
        reason=body.reason,
        expected_version=body.expected_version,
        answer=answer,
        detail=detail,
    )


# -- locks ------------------------------------------------------------------------------------------


async def list_locks(
    call: Call, *, after: str | None = None, behind: str | None = None, limit: int = 100
) -> Answer:
    """Held locks, by name. `behind`: a name, for the first page."""
    call.authorise_any(O.LOCKS_READ)
    place = (behind or "") if after is None else parse_id_cursor(after, of="locks")
    rows = await call.services.locks.list(after=place, limit=check_page(limit))
    last = rows[-1] if len(rows) == limit else None
    following = None if last is None else make_cursor((last.resource,), of="locks")
    return Answer({"items": [views.lock(row) for row in rows], "next": following})


async def get_lock(call: Call, resource: str) -> Answer:
    call.authorise_any(O.LOCKS_READ)
    info = await call.services.locks.show(resource)
    if not info.is_held and not info.fence:
        raise missing("lock", resource)
    return Answer(views.whole_lock(info))


async def revoke_lock(call: Call, resource: str, body: ReasonBody) -> Answer:
    actor = call.authorise_store(O.LOCKS_REVOKE).actor

    def answer(audit: Audit) -> Answer:
        return Answer(views.lock_act(audit))

    by = call.by(
        O.LOCKS_REVOKE,
        project=ALL_PROJECTS,
        subject=resource,
        actor=actor,
        reason=body.reason,
        answer=answer,
    )
    return answer(await call.services.locks.revoke(resource, by))
