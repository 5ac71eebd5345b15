"""Operations on tasks: list, get, why, history, submit, edit, copy."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, Literal

import msgspec
from msgspec import UNSET, UnsetType

from holdfast.core.check import check_name, check_number, check_page, check_whole
from holdfast.core.command import Edit, OperatorCommand
from holdfast.core.decide import Transition
from holdfast.core.dependency import DependencyPolicy, Edge
from holdfast.core.errors import PreconditionFailed
from holdfast.core.four_eyes import with_submitter
from holdfast.core.merge_patch import merge_patch
from holdfast.core.pressure import ACCEPTED, Pressure
from holdfast.core.rights import Operation
from holdfast.core.search import Query, parse
from holdfast.core.submit import BATCH_MAX, METADATA_BYTES_MAX, encode_payload
from holdfast.core.task import ENDED, NO_TIMEOUT, Task
from holdfast.core.wire import check_new_id, check_project, make_cursor, parse_cursor
from holdfast.errors import BatchTooLarge, InvalidInput, VersionConflict, WaitTimeout
from holdfast.gateway import redacting
from holdfast.gateway.operations.call import Answer, Call, missing, stored
from holdfast.queue import views
from holdfast.queue.by import By
from holdfast.queue.details import TaskDetails
from holdfast.queue.enqueue import MakeBeside, check_options
from holdfast.queue.types import EnqueueOptions
from holdfast.store.search import After, TaskRow, search
from holdfast.store.store import Inserted
from holdfast.sync.access.recorded import RecordedInsert

O: Final = Operation  # noqa: E741
WAIT_SECONDS_MAX: Final = 30.0
QUERY_CHARS_MAX: Final = 2_000
BODIES_MAX: Final = 100
"""Tasks with their bodies in one answer."""
COPIED: Final = "copy_of"
"""The field of a copy's metadata that names the original."""


class EdgeBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A dependency with its policy."""

    id: str
    policy: str = DependencyPolicy.FAIL.value


class TaskBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A task to enqueue."""

    type: str
    payload: Any = None
    queue: str | None = None
    priority: str | int | None = None
    max_attempts: int | None = None
    delay_seconds: float = 0.0
    timeout_seconds: float | UnsetType | None = UNSET
    progress_timeout_seconds: float | UnsetType | None = UNSET
    key: str | None = None
    idempotency_key: str | None = None
    id: str | None = None
    depends_on: list[str | EdgeBody] = []
    metadata: dict[str, Any] | None = None
    project: str | None = None


class BatchBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Tasks to enqueue, all or none."""

    tasks: list[TaskBody]


class EditBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Merge patches (RFC 7396) of the payload and of the metadata. With the mode `fields` the payload
    replaces the fields that it has, with `whole` all of them."""

    payload: Any = UNSET
    payload_mode: Literal["patch", "fields", "whole"] = "patch"
    metadata: dict[str, Any] | UnsetType = UNSET
    reason: str = ""
    expected_version: int | None = None


class CopyBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A new task like an existing one."""

    payload: Any = UNSET
    reason: str = ""


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


# -- new tasks --------------------------------------------------------------------------------------


async def submit(call: Call, body: TaskBody) -> Answer:
    """Enqueues one task."""
    options = _options(call, body)

    def answer(inserted: Inserted, task: Task, pressure: Pressure) -> Answer:
        view = {"task": redacting.task(call.services, task), "created": inserted.created}
        view["pressure"] = pressure.value
        return Answer(view, 201 if inserted.created else 200, task.version)

    beside = _beside(
        call, lambda rows, tasks, pressure: answer(rows[0], tasks[rows[0].task_id], pressure)
    )
    handle = await call.services.parts.producer.enqueue(
        body.type, body.payload, _given_id(body), options, None, beside=beside
    )
    task = await call.services.parts.tasks.get(handle.id)
    return answer(Inserted(handle.id, handle.status, handle.created), task, handle.pressure)


async def submit_batch(call: Call, body: BatchBody) -> Answer:
    """Enqueues all tasks, or none."""
    if len(body.tasks) > BATCH_MAX:
        raise BatchTooLarge(f"{len(body.tasks)} tasks: at most {BATCH_MAX} are allowed, split it")
    call.authorise_any(O.TASKS_SUBMIT)
    items = [_item(call, task) for task in body.tasks]
    beside = _beside(call, lambda inserted, _, pressure: _batch_answer(inserted, pressure))
    handles = await call.services.parts.producer.enqueue_many(items, None, beside=beside)
    rows = [Inserted(handle.id, handle.status, handle.created) for handle in handles]
    return _batch_answer(rows, handles[0].pressure if handles else ACCEPTED)


def _batch_answer(rows: list[Inserted], pressure: Pressure) -> Answer:
    items = [
        {"id": row.task_id, "status": row.status.value, "created": row.created} for row in rows
    ]
    return Answer({"items": items, "pressure": pressure.value}, 201)


def _beside(
    call: Call, answer: Callable[[list[Inserted], dict[str, Task], Pressure], Answer]
) -> MakeBeside | None:
    """Keeps the answer for a repeat, if the request has a key."""
    repeatable = call.repeatable(O.TASKS_SUBMIT)
    if repeatable is None:
        return None
    return lambda pressure: RecordedInsert(
        lambda rows, tasks: stored(answer(rows, tasks, pressure)), repeatable=repeatable
    )


def _options(call: Call, body: TaskBody) -> EnqueueOptions:
    return EnqueueOptions(
        queue=body.queue,
        priority=body.priority,
        max_attempts=body.max_attempts,
        metadata=with_submitter(body.metadata, call.principal.name),
        depends_on=[_edge(edge) for edge in body.depends_on],
        delay=body.delay_seconds,
        timeout=body.timeout_seconds,
        progress_timeout=body.progress_timeout_seconds,
        key=body.key,
        idempotency_key=body.idempotency_key,
        project=_project(call, body),
    )


def _item(call: Call, body: TaskBody) -> dict[str, Any]:
    item = msgspec.structs.asdict(_options(call, body))
    item = {name: value for name, value in item.items() if value is not UNSET}
    check_options(item)
    return {"type": body.type, "payload": body.payload, "id": _given_id(body), **item}


def _project(call: Call, body: TaskBody) -> str:
    """The project of a new task, in which the principal may enqueue."""
    project = call.home if body.project is None else check_project("project", body.project)
    call.authorise(O.TASKS_SUBMIT, project=project, noun="project", id=project)
    return project


def _given_id(body: TaskBody) -> str | None:
    return None if body.id is None else check_new_id("id", body.id)


def _edge(given: str | EdgeBody) -> Edge | str:
    if isinstance(given, str):
        return given
    try:
        return Edge(given.id, DependencyPolicy(given.policy))
    except ValueError:
        names = ", ".join(DependencyPolicy)
        raise InvalidInput(f"depends_on has the policy '{given.policy}': use {names}") from None


# -- changes ----------------------------------------------------------------------------------------


async def edit(call: Call, task_id: str, body: EditBody) -> Answer:
    """Changes the payload of a waiting or dead task, or the metadata of one that has not ended."""
    task = await readable(call, O.TASKS_EDIT, task_id)
    if body.payload is UNSET and body.metadata is UNSET:
        raise InvalidInput("payload and metadata are missing: give what changes")
    payload = metadata = None
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
    is_merged = metadata is not None or body.payload_mode == "patch"
    if by.expected_version is None and is_merged:
        # The patch was merged with the content of this version.
        by = msgspec.structs.replace(by, expected_version=task.version)
    command = Edit(
        by.actor,
        payload,
        body.payload_mode == "fields",
        metadata_json=metadata,
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


async def copy(call: Call, task_id: str, body: CopyBody) -> Answer:
    """Enqueues a new task with the type, the options and the payload of an existing one."""
    task = await readable(call, O.TASKS_COPY, task_id)
    actor = call.authorise(O.TASKS_COPY, project=task.project).actor
    payload = task.payload if body.payload is UNSET else body.payload
    timeout = task.options.timeout_seconds
    options = EnqueueOptions(
        queue=task.queue,
        priority=task.priority,
        max_attempts=task.max_attempts,
        metadata=with_submitter({**task.metadata, COPIED: task.id}, call.principal.name),
        timeout=UNSET if timeout is None else None if timeout == NO_TIMEOUT else timeout,
        progress_timeout=task.progress_timeout_seconds,
        project=task.project,
    )

    def answer(inserted: Inserted, made: Task) -> Answer:
        return Answer(redacting.task(call.services, made), 201, made.version)

    beside = RecordedInsert(
        lambda rows, tasks: stored(answer(rows[0], tasks[rows[0].task_id])),
        repeatable=call.repeatable(O.TASKS_COPY),
        entries=call.entries(
            O.TASKS_COPY, project=task.project, subject=task.id, actor=actor, reason=body.reason
        ),
    )
    handle = await call.services.parts.producer.enqueue(
        task.type, payload, None, options, None, beside=lambda _: beside
    )
    made = await call.services.parts.tasks.get(handle.id)
    return answer(Inserted(handle.id, handle.status, True), made)


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
