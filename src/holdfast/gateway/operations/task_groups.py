"""Operations on task groups: enqueue, progress, tasks, cancel the rest."""

from __future__ import annotations

from typing import Final

import msgspec

from holdfast.core.check import check_number, check_whole
from holdfast.core.group import GroupProgress
from holdfast.core.pressure import Pressure
from holdfast.core.rights import Operation
from holdfast.core.submit import BATCH_MAX
from holdfast.core.wire import check_new_id, make_cursor, parse_cursor
from holdfast.errors import BatchTooLarge, InvalidInput, WaitTimeout
from holdfast.gateway import redacting
from holdfast.gateway.operations.call import Answer, Call, missing
from holdfast.gateway.operations.new_tasks import TaskBody, batch_beside, batch_items, hint_watchers
from holdfast.gateway.operations.tasks import BODIES_MAX, WAIT_SECONDS_MAX
from holdfast.queue import views
from holdfast.store.store import Inserted

O: Final = Operation  # noqa: E741
NOUN: Final = "task group"


class GroupBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Tasks to enqueue as a group, all or none."""

    tasks: list[TaskBody]
    id: str | None = None


class CancelBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A cancel of the tasks that have not ended. With `dry_run` they are only counted."""

    reason: str = ""
    dry_run: bool = False


async def submit(call: Call, body: GroupBody) -> Answer:
    """Enqueues all tasks as a group, or none."""
    if len(body.tasks) > BATCH_MAX:
        raise BatchTooLarge(f"{len(body.tasks)} tasks: at most {BATCH_MAX} are allowed, split it")
    call.authorise_any(O.TASKS_SUBMIT)
    group_id = None if body.id is None else check_new_id("id", body.id)
    services = call.services
    made_id = group_id or services.store.ids.task(services.now())
    beside = batch_beside(call, lambda rows, pressure: _made(made_id, rows, pressure))
    group = await services.parts.producer.enqueue_group(
        batch_items(call, body.tasks), group_id, None, beside=beside, made_id=made_id
    )
    hint_watchers(call)
    return _made(made_id, group.inserted, group.pressure)


def _made(group_id: str, rows: list[Inserted], pressure: Pressure) -> Answer:
    items = [
        {"id": row.task_id, "status": row.status.value, "created": row.created} for row in rows
    ]
    return Answer({"id": group_id, "items": items, "pressure": pressure.value}, 201)


async def get(call: Call, group_id: str, *, wait_seconds: float = 0.0) -> Answer:
    """How far a group is. `wait_seconds`: waits for the end of all its tasks, at most so long."""
    progress = await _readable(call, O.TASKS_READ, group_id)
    seconds = min(check_number("wait_seconds", wait_seconds), WAIT_SECONDS_MAX)
    if seconds and not progress.is_ended:
        try:
            ended = await call.services.until_stop(
                call.services.parts.groups.wait(group_id, seconds)
            )
        except WaitTimeout:
            ended = None
        progress = ended or await _readable(call, O.TASKS_READ, group_id)
    return Answer(views.task_group(progress))


async def tasks(
    call: Call, group_id: str, *, after: str | None = None, limit: int = BODIES_MAX
) -> Answer:
    """The tasks of a group with their bodies, in the order of the enqueue."""
    await _readable(call, O.TASKS_READ, group_id)
    check_whole("limit", limit, least=1, most=BODIES_MAX)
    groups, name = call.services.parts.groups, f"tasks of {group_id}"
    start = -1 if after is None else _number(after, name)
    members = await groups.members(group_id, after=start, limit=limit)
    found = await call.services.store.reads.get([task_id for _, task_id in members])
    items = [
        redacting.task(call.services, found[task_id]) for _, task_id in members if task_id in found
    ]
    more = make_cursor((members[-1][0],), of=name) if len(members) == limit else None
    return Answer({"items": items, "next": more})


async def cancel(call: Call, group_id: str, body: CancelBody) -> Answer:
    """Aborts the tasks of a group that have not ended."""
    progress = await _readable(call, O.TASKS_INTERVENE, group_id)
    actor = call.authorise(
        O.TASKS_INTERVENE, project=progress.project, noun=NOUN, id=group_id
    ).actor
    if body.dry_run:
        return Answer({"count": progress.open, "dry_run": True})
    by = call.by(
        O.TASKS_INTERVENE,
        project=progress.project,
        subject=group_id,
        actor=actor,
        reason=body.reason,
    )
    repeat = await call.begin_repeatable(O.TASKS_INTERVENE)
    answer = Answer(
        {"count": await call.services.parts.groups.cancel(group_id, by), "dry_run": False}
    )
    await call.end_repeatable(repeat, answer)
    call.services.wake()
    return answer


async def _readable(call: Call, operation: Operation, group_id: str) -> GroupProgress:
    call.authorise_any(operation)
    progress = await call.services.store.groups.progress(group_id)
    if progress is None:
        raise missing(NOUN, group_id)
    call.authorise(operation, project=progress.project, noun=NOUN, id=group_id)
    return progress


def _number(text: str, name: str) -> int:
    match parse_cursor(text, of=name):
        case (int() as number,):
            return number
    raise InvalidInput("after is not a cursor of this list: give the `next` of its last page")
