"""Operations on tasks: list, get, why, history, edit. `new_tasks.py` has those that enqueue."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Literal

import msgspec
from msgspec import UNSET, UnsetType

from holdfast.core.check import check_name, check_number, check_page, check_whole
from holdfast.core.command import Edit, OperatorCommand
from holdfast.core.decide import Transition
from holdfast.core.errors import PreconditionFailed
from holdfast.core.merge_patch import merge_patch
from holdfast.core.rights import Operation
from holdfast.core.search import Query, parse
from holdfast.core.submit import METADATA_BYTES_MAX, encode_payload
from holdfast.core.tags import check_tags
from holdfast.core.task import ENDED, Task
from holdfast.core.wire import make_cursor, parse_cursor
from holdfast.errors import InvalidInput, VersionConflict, WaitTimeout
from holdfast.gateway import redacting
from holdfast.gateway.operations.call import Answer, Call, missing
from holdfast.queue import views
from holdfast.queue.by import By
from holdfast.queue.details import TaskDetails
from holdfast.store.search import After, TaskRow, search

O: Final = Operation  # noqa: E741
WAIT_SECONDS_MAX: Final = 30.0
QUERY_CHARS_MAX: Final = 2_000
BODIES_MAX: Final = 100
"""Tasks with their bodies in one answer."""


class TagsBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Tags that a task gets and loses."""

    add: list[str] = []
    remove: list[str] = []

    def changed(self, tags: tuple[str, ...]) -> tuple[str, ...]:
        """The tags after the change."""
        removed = check_tags(self.remove)
        return check_tags({*tags, *check_tags(self.add)}.difference(removed))


class EditBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Merge patches (RFC 7396) of the payload and of the metadata, tags to add and to remove. With the mode
    `fields` the payload replaces the fields that it has, with `whole` all of them."""

    payload: Any = UNSET
    payload_mode: Literal["patch", "fields", "whole"] = "patch"
    metadata: dict[str, Any] | UnsetType = UNSET
    tags: TagsBody | UnsetType = UNSET
    reason: str = ""
    expected_version: int | None = None


# -- reading ----------------------------------------------------------------------------------------


async def readable(call: Call, operation: Operation, task_id: str) -> Task:
    """The task of an id, or of a name that a node gave, if the principal may do the operation on it. NotFound
    if it has no access to its project. What follows uses the id of this task."""
    call.authorise_any(operation)
    task = await call.services.parts.tasks.look_up(task_id, call.projects)
    if task is None:
        raise missing("task", task_id)
    call.authorise(operation, project=task.project, noun="task", id=task_id)
    return task


async def find(
    call: Call,
    *,
    q: str = "",
    after: str | None = None,
    behind: str | None = None,
    bodies: bool = False,
    limit: int = 100,
) -> Answer:
    """One page of the tasks that match `q`. `behind`: the id of a task, for the first page of a list that is
    sorted by id. `bodies`: whole tasks in place of rows."""
    call.authorise_any(O.TASKS_READ)
    if len(q) > QUERY_CHARS_MAX:
        raise InvalidInput(f"q has {len(q)} characters: at most {QUERY_CHARS_MAX} are allowed")
    query = parse(q)
    name = f"tasks {q}"
    place = None if after is None else cursor(after, name)
    if behind is not None and after is None:
        place = After(0.0, _behind(query, behind))
    if bodies:
        check_whole("limit", limit, least=1, most=BODIES_MAX)
    page = await search(
        call.services.store, query, projects=call.projects, after=place, limit=check_page(limit)
    )
    body: dict[str, Any] = {"items": rows(call, page.rows)}
    if bodies:
        tasks = await call.services.store.reads.get([row.id for row in page.rows])
        found = [tasks[row.id] for row in page.rows if row.id in tasks]
        body["items"] = [redacting.task(call.services, task) for task in found]
    last = page.rows[-1] if len(page.rows) == limit else None
    body["next"] = None if last is None else make_cursor((last.updated_at, last.id), of=name)
    if page.scope is not None:
        body["scope"] = page.scope
    return Answer(body)


def _behind(query: Query, task_id: str) -> str:
    if query.sort is not None and query.sort.key == "updated":
        raise InvalidInput("behind is for a list that is sorted by id: use after with sort:updated")
    return check_name("behind", task_id)


def cursor(text: str, name: str) -> After:
    """The place that a cursor of this list of tasks stands for."""
    match parse_cursor(text, of=name):
        case (int() | float() as at, str() as task_id):
            return After(float(at), task_id)
    raise InvalidInput("after is not a cursor of this list: give the `next` of its last page")


async def get(call: Call, task_id: str, *, wait_seconds: float = 0.0) -> Answer:
    """One task with its bodies. `wait_seconds`: waits for its end, at most so long."""
    task = await readable(call, O.TASKS_READ, task_id)
    seconds = min(check_number("wait_seconds", wait_seconds), WAIT_SECONDS_MAX)
    if seconds and task.status not in ENDED:
        try:
            ended = await call.services.until_stop(call.services.parts.tasks.wait(task.id, seconds))
        except WaitTimeout:
            ended = None
        task = ended or await readable(call, O.TASKS_READ, task.id)
    return task_answer(call, task, await call.services.parts.tasks.details(task.id))


def rows(call: Call, found: Iterable[TaskRow]) -> list[views.View]:
    """The rows of a list, with previews without secrets."""
    now, rules = call.services.now(), call.services.redaction
    return [redacting.row(rules, views.task_row(row, now)) for row in found]


async def why(call: Call, task_id: str) -> Answer:
    """Why the task is not running."""
    task = await readable(call, O.TASKS_READ, task_id)
    why = views.why(await call.services.parts.tasks.why(task.id))
    return Answer(call.services.redaction.value(why))


async def history(call: Call, task_id: str) -> Answer:
    """The stored events of the task, oldest first."""
    task = await readable(call, O.TASKS_READ, task_id)
    events, rules = await call.services.parts.tasks.history(task.id), call.services.redaction
    return Answer(
        {"items": [views.event(redacting.event(rules, event)) for event in events], "next": None}
    )


# -- changes ----------------------------------------------------------------------------------------


async def edit(call: Call, task_id: str, body: EditBody) -> Answer:
    """Changes the payload of a waiting or dead task, or the metadata or tags of one that has not ended."""
    task = await readable(call, O.TASKS_EDIT, task_id)
    if body.payload is UNSET and body.metadata is UNSET and body.tags is UNSET:
        raise InvalidInput("payload, metadata and tags are missing: give what changes")
    payload = metadata = None
    tags = None if body.tags is UNSET else body.tags.changed(task.tags)
    if body.payload is not UNSET:
        is_patch = body.payload_mode == "patch"
        new = merge_patch(task.payload, body.payload) if is_patch else body.payload
        payload = encode_payload(new)
    if body.metadata is not UNSET:
        merged = merge_patch(task.metadata, body.metadata)
        metadata = encode_payload(merged, what="metadata", limit=METADATA_BYTES_MAX)
    seen = await call.services.parts.tasks.details(task.id)
    by = task_by(
        call, O.TASKS_EDIT, task, body.reason, expected_version=body.expected_version, details=seen
    )
    is_merged = metadata is not None or tags is not None or body.payload_mode == "patch"
    if by.expected_version is None and is_merged:
        # The patch was merged with the content of this version.
        by = msgspec.structs.replace(by, expected_version=task.version)
    command = Edit(
        by.actor,
        payload,
        body.payload_mode == "fields",
        metadata_json=metadata,
        tags=tags,
        reason=body.reason,
    )
    return task_answer(call, await apply(call, task.id, command, by), seen)


async def apply(call: Call, task_id: str, command: OperatorCommand, by: By) -> Task:
    """Applies a command. VersionConflict carries the current state of the task; with If-Match it is
    PreconditionFailed."""
    try:
        return await call.services.parts.tasks.apply(task_id, command, by)
    except VersionConflict as error:
        task = await call.services.parts.tasks.look_up(task_id)
        raised = error if call.if_match is None else PreconditionFailed(str(error))
        if task is not None:
            raised.current = {"status": task.status.value, "version": task.version}
        raise raised from None


def task_by(
    call: Call,
    operation: Operation,
    task: Task,
    reason: str,
    *,
    expected_version: int | None = None,
    details: TaskDetails,
) -> By:
    """Who changes the task. For every operation that applies one command to one task."""
    actor = call.authorise(operation, project=task.project, noun="task", id=task.id).actor

    def answer(rulings: Any) -> Answer | None:
        ruling = rulings[0]
        return task_answer(call, ruling.after, details) if isinstance(ruling, Transition) else None

    return call.by(
        operation,
        project=task.project,
        subject=task.id,
        actor=actor,
        reason=reason,
        expected_version=expected_version,
        answer=answer,
    )


def task_answer(call: Call, task: Task, details: TaskDetails) -> Answer:
    """A task with its bodies, e.g. after a change."""
    return Answer(redacting.task(call.services, task, details), version=task.version)
