"""Operations that enqueue tasks: submit, submit many, copy."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from holdfast.bus.port import FEED
from holdfast.core.dependency import DependencyPolicy, Edge
from holdfast.core.four_eyes import with_submitter
from holdfast.core.pressure import ACCEPTED, Pressure
from holdfast.core.rights import Operation
from holdfast.core.submit import BATCH_MAX
from holdfast.core.task import NO_TIMEOUT, Task
from holdfast.core.unique import Unique
from holdfast.core.wire import check_new_id, check_project
from holdfast.errors import BatchTooLarge, InvalidInput
from holdfast.gateway import redacting
from holdfast.gateway.operations.call import Answer, Call, stored
from holdfast.gateway.operations.tasks import readable
from holdfast.queue.enqueue import MakeBeside
from holdfast.queue.new_rows import TRACE
from holdfast.queue.requests import check_options
from holdfast.queue.types import EnqueueOptions
from holdfast.store.store import Inserted
from holdfast.sync.access.recorded import RecordedInsert
from holdfast.tracing import CURRENT, TraceContext, parse_trace, using

O: Final = Operation  # noqa: E741
COPIED: Final = "copy_of"
"""The field of a copy's metadata that names the original."""


class EdgeBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A dependency with its policy."""

    id: str
    policy: str = DependencyPolicy.FAIL.value


class UniqueBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The window of a unique task: until it has `started` or `ended`, or a period."""

    until: str | None = None
    period_seconds: float | None = None
    by: list[str] = []

    def window(self) -> Unique:
        return Unique(until=self.until, period=self.period_seconds, by=tuple(self.by))  # type: ignore[arg-type] # it checks `until`


class TaskBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A task to enqueue."""

    type: str
    payload: Any = None
    queue: str | None = None
    priority: str | int | None = None
    max_attempts: int | None = None
    delay_seconds: float = 0.0
    run_at: datetime | None = None
    timeout_seconds: float | UnsetType | None = UNSET
    progress_timeout_seconds: float | UnsetType | None = UNSET
    key: str | None = None
    idempotency_key: str | None = None
    id: str | None = None
    depends_on: list[str | EdgeBody] = []
    metadata: dict[str, Any] | None = None
    tags: list[str] = []
    project: str | None = None
    unique: UniqueBody | UnsetType | None = UNSET
    traceparent: str | None = None
    """The span that enqueues the task (W3C Trace Context). Without it, that of the header."""
    tracestate: str | None = None


class BatchBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Tasks to enqueue, all or none."""

    tasks: list[TaskBody]


class CopyBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A new task like an existing one."""

    payload: Any = UNSET
    reason: str = ""


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
    with using(_trace(body)):
        made = await call.services.parts.producer.insert(
            body.type, body.payload, _given_id(body), options, None, beside=beside
        )
    hint_watchers(call)
    task = made.row or await call.services.parts.tasks.get(made.inserted.task_id)
    return answer(made.inserted, task, made.pressure)


async def submit_batch(call: Call, body: BatchBody) -> Answer:
    """Enqueues all tasks, or none."""
    if len(body.tasks) > BATCH_MAX:
        raise BatchTooLarge(f"{len(body.tasks)} tasks: at most {BATCH_MAX} are allowed, split it")
    call.authorise_any(O.TASKS_SUBMIT)
    items = batch_items(call, body.tasks)
    beside = batch_beside(call, _batch_answer)
    handles = await call.services.parts.producer.enqueue_many(items, None, beside=beside)
    hint_watchers(call)
    rows = [Inserted(handle.id, handle.status, handle.created) for handle in handles]
    return _batch_answer(rows, handles[0].pressure if handles else ACCEPTED)


def batch_items(call: Call, tasks: list[TaskBody]) -> list[dict[str, Any]]:
    """The tasks of a batch, in which the principal may enqueue."""
    return [_item(call, task) for task in tasks]


def batch_beside(
    call: Call, answer: Callable[[list[Inserted], Pressure], Answer]
) -> MakeBeside | None:
    """Keeps the answer to a batch for a repeat, if the request has a key."""
    return _beside(call, lambda inserted, _, pressure: answer(inserted, pressure))


def hint_watchers(call: Call) -> None:
    """On a store with one writer, an idle worker of this process takes new tasks without a hint. Those that
    it does not start would reach watchers with the next poll only. Elsewhere each insert has a hint."""
    if call.services.store.one_writer:
        call.services.bus.publish(FEED)


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
    """The options of the request. One with a type and a payload only has none: the queue then copies an
    earlier task of the type."""
    project = _project(call, body)
    return EnqueueOptions(
        queue=body.queue,
        priority=body.priority,
        max_attempts=body.max_attempts,
        metadata=with_submitter(body.metadata, call.principal.name),
        tags=tuple(body.tags),
        depends_on=[_edge(edge) for edge in body.depends_on] if body.depends_on else (),
        delay=body.delay_seconds,
        run_at=body.run_at,
        timeout=body.timeout_seconds,
        progress_timeout=body.progress_timeout_seconds,
        key=body.key,
        idempotency_key=body.idempotency_key,
        project=None if project == call.services.queue.settings.project else project,
        unique=body.unique.window() if isinstance(body.unique, UniqueBody) else body.unique,
    )


def _item(call: Call, body: TaskBody) -> dict[str, Any]:
    item = msgspec.structs.asdict(_options(call, body))
    item = {name: value for name, value in item.items() if value is not UNSET}
    check_options(item)
    item[TRACE] = _trace(body)
    return {"type": body.type, "payload": body.payload, "id": _given_id(body), **item}


def _trace(body: TaskBody) -> TraceContext | None:
    return parse_trace(body.traceparent, body.tracestate) or CURRENT.get()


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
        tags=task.tags,
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
    hint_watchers(call)
    made = await call.services.parts.tasks.get(handle.id)
    return answer(Inserted(handle.id, handle.status, True), made)
