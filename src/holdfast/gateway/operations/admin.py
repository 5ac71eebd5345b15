"""Operations on queues, schedules and locks."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from holdfast.core.access import ALL_PROJECTS
from holdfast.core.check import check_page
from holdfast.core.codec import loads
from holdfast.core.lease import Audit
from holdfast.core.rights import Operation
from holdfast.core.schedule import Schedule
from holdfast.core.task import DEFAULT_PROJECT, Priority, Task
from holdfast.core.wire import make_cursor, parse_cursor
from holdfast.errors import InvalidInput, NotFound
from holdfast.gateway.operations.call import Answer, Call, missing, stored
from holdfast.queue import views
from holdfast.queue.by import By
from holdfast.queue.queues import QueueView
from holdfast.queue.types import EnqueueOptions
from holdfast.store.store import Store
from holdfast.sync.access.recorded import RecordedInsert

O: Final = Operation  # noqa: E741


class ReasonBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Why a change is made."""

    reason: str = ""


class ScheduleBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A schedule to add or to change."""

    spec: str
    type: str
    payload: Any = None
    timezone: str = "UTC"
    queue: str | None = None
    priority: str | int | None = None
    reason: str = ""


# -- queues -----------------------------------------------------------------------------------------


async def list_queues(call: Call) -> Answer:
    call.authorise_any(O.QUEUES_READ)
    rows = [views.queue(view) for view in await _queues(call)]
    return Answer({"items": rows, "next": None})


async def get_queue(call: Call, name: str) -> Answer:
    call.authorise_any(O.QUEUES_READ)
    return Answer(views.queue(await _queue(call, name)))


async def pause_queue(call: Call, name: str, body: ReasonBody) -> Answer:
    return await _change_queue(call, name, body, pause=True)


async def resume_queue(call: Call, name: str, body: ReasonBody) -> Answer:
    return await _change_queue(call, name, body, pause=False)


async def _change_queue(call: Call, name: str, body: ReasonBody, *, pause: bool) -> Answer:
    actor = call.authorise_store(O.QUEUES_PAUSE).actor
    before = await _queue(call, name)
    answers: list[Answer] = []

    def answer(outcome: float) -> Answer:
        view = QueueView(name, before.counts)
        if pause:
            view = QueueView(name, before.counts, outcome, actor, body.reason)
        answers.append(Answer(views.queue(view)))
        return answers[-1]

    by = call.by(
        O.QUEUES_PAUSE,
        project=ALL_PROJECTS,
        subject=name,
        actor=actor,
        reason=body.reason,
        answer=answer,
        detail={"paused": pause},
    )
    queues = call.hub.parts.queues
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
    rows = await call.hub.parts.queues.list()
    return await counted(call.hub.store, rows, call.projects)


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
    call.authorise(O.SCHEDULES_READ, project=DEFAULT_PROJECT)
    rows = [views.schedule(row) for row in await call.hub.parts.schedules.list()]
    return Answer({"items": rows, "next": None})


async def get_schedule(call: Call, name: str) -> Answer:
    call.authorise(O.SCHEDULES_READ, project=DEFAULT_PROJECT, noun="schedule", id=name)
    return Answer(views.schedule(await _schedule(call, name)))


async def put_schedule(call: Call, name: str, body: ScheduleBody) -> Answer:
    by = _schedule_by(call, name, body.reason, {"spec": body.spec, "type": body.type})
    await call.hub.parts.schedules.put(
        name,
        by,
        spec=body.spec,
        type=body.type,
        payload=body.payload,
        timezone=body.timezone,
        queue=body.queue,
        priority=body.priority,
    )
    return Answer(views.schedule(await _schedule(call, name)))


async def remove_schedule(call: Call, name: str, *, reason: str = "") -> Answer:
    removed: list[Schedule] = []
    by = _schedule_by(call, name, reason, {"removed": True}, removed)
    await call.hub.parts.schedules.remove(name, by)
    return Answer(views.schedule(removed[-1]))


async def pause_schedule(call: Call, name: str, body: ReasonBody) -> Answer:
    by = _schedule_by(call, name, body.reason, {"paused": True})
    return Answer(views.schedule(await call.hub.parts.schedules.pause(name, by)))


async def resume_schedule(call: Call, name: str, body: ReasonBody) -> Answer:
    by = _schedule_by(call, name, body.reason, {"paused": False})
    return Answer(views.schedule(await call.hub.parts.schedules.resume(name, by)))


async def run_schedule(call: Call, name: str, body: ReasonBody) -> Answer:
    """Enqueues the task of a schedule now. The schedule stays as it is."""
    allowed = call.authorise(O.SCHEDULES_WRITE, project=DEFAULT_PROJECT, noun="schedule", id=name)
    schedule = await _schedule(call, name)

    def answer(made: Task) -> Answer:
        return Answer({"task": views.task(made, call.hub.now())}, 201, made.version)

    beside = RecordedInsert(
        lambda rows, tasks: stored(answer(tasks[rows[0].task_id])),
        repeatable=call.repeatable(O.SCHEDULES_WRITE),
        entries=call.entries(
            O.SCHEDULES_WRITE,
            project=DEFAULT_PROJECT,
            subject=name,
            actor=allowed.actor,
            reason=body.reason,
            detail={"run": True},
        ),
    )
    options = EnqueueOptions(
        schedule.queue, Priority(schedule.priority), metadata={"schedule": schedule.name}
    )
    handle = await call.hub.parts.producer.enqueue(
        schedule.type, loads(schedule.payload_json), None, options, None, beside=beside
    )
    return answer(await call.hub.parts.tasks.get(handle.id))


async def _schedule(call: Call, name: str) -> Schedule:
    return await call.hub.parts.schedules.get(name)


def _schedule_by(
    call: Call, name: str, reason: str, detail: object, outcomes: list[Schedule] | None = None
) -> By:
    """Who changes the schedule. `outcomes` gets the schedule that the change answers with."""

    def answer(schedule: Schedule) -> Answer:
        if outcomes is not None:
            outcomes.append(schedule)
        return Answer(views.schedule(schedule))

    allowed = call.authorise(O.SCHEDULES_WRITE, project=DEFAULT_PROJECT, noun="schedule", id=name)
    return call.by(
        O.SCHEDULES_WRITE,
        project=DEFAULT_PROJECT,
        subject=name,
        actor=allowed.actor,
        reason=reason,
        answer=answer,
        detail=detail,
    )


# -- locks ------------------------------------------------------------------------------------------


async def list_locks(
    call: Call, *, after: str | None = None, behind: str | None = None, limit: int = 100
) -> Answer:
    """Held locks, by name. `behind`: a name, for the first page."""
    call.authorise_any(O.LOCKS_READ)
    place = (behind or "") if after is None else _text(parse_cursor(after, of="locks"))
    rows = await call.hub.locks.list(after=place, limit=check_page(limit))
    last = rows[-1] if len(rows) == limit else None
    following = None if last is None else make_cursor((last.resource,), of="locks")
    return Answer({"items": [views.lock(row) for row in rows], "next": following})


async def get_lock(call: Call, resource: str) -> Answer:
    call.authorise_any(O.LOCKS_READ)
    info = await call.hub.locks.show(resource)
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
    return answer(await call.hub.locks.revoke(resource, by))


def _text(values: tuple[Any, ...]) -> str:
    match values:
        case (str() as text,):
            return text
    raise InvalidInput("after is not a cursor of this list: give the `next` of its last page")
