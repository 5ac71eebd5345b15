"""From an enqueue request to a task row: validation and defaults.

Promises: a typed error that names the field for each invalid input, before anything is written.
Never: reads the store (types, parents and limits are checked in the store's transaction).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from holdfast.core import codec, priority as priorities
from holdfast.core.check import SECONDS_MAX, check_id, check_name, check_whole, shown
from holdfast.core.dependency import Edge
from holdfast.core.limit import LimitRule
from holdfast.core.request import EnqueueRequest, request_hash
from holdfast.core.seconds import check_seconds
from holdfast.core.tags import check_tags, tags_json
from holdfast.core.task import DEFAULT_PROJECT, Status, Task, TaskOptions
from holdfast.core.unique import Unique, window_key
from holdfast.core.wire import check_project
from holdfast.errors import InvalidInput, PayloadTooLarge, UnserialisablePayload
from holdfast.tracing import TraceContext

PAYLOAD_BYTES_MAX: Final = 262_144
RESULT_BYTES_MAX: Final = 1_048_576
METADATA_BYTES_MAX: Final = 16_384
BATCH_MAX: Final = 10_000
_SMALL_CHARS: Final = 2 * codec.DEPTH_MAX
"""A text of this length cannot be too deep, because each level has two brackets, or too large."""
ATTEMPTS_MAX: Final = 1_000_000
EDGES_MAX: Final = BATCH_MAX
"""A task may wait for the largest group."""
DELAY_SECONDS_MAX: Final = SECONDS_MAX


class Submission(msgspec.Struct, frozen=True, gc=False):
    """A task to insert, with what the store checks in the same transaction."""

    task: Task
    edges: tuple[Edge, ...] = ()
    rules: tuple[tuple[str, LimitRule], ...] = ()
    """Name and rule of each limit that the task counts against."""

    is_plain: bool = True
    """The task has no edges, no limits, and nothing that a second request could repeat (an idempotency key,
    an id that the caller chose): the store looks up nothing."""
    id_given: bool = False
    """The caller chose the id. A node may give the same name to another task at this moment."""
    unique: Unique | None = None
    unique_key: str = ""
    """What the tasks of its unique window share."""


def parents_of(group: Sequence[Submission]) -> dict[str, set[str]]:
    """The parents that tasks of each project name, without those in the group."""
    inside = {submission.task.id for submission in group}
    parents: dict[str, set[str]] = {}
    for submission in group:
        names = {edge.parent_id for edge in submission.edges} - inside
        parents.setdefault(submission.task.project, set()).update(names)
    return parents


def with_parents(
    group: Sequence[Submission], ids: Mapping[str, Mapping[str, str]]
) -> list[Submission]:
    """The group with the ids of parents in place of their names. `ids`: by project and name. The last of two
    edges to one parent counts. The hash stays: it is of what the caller gave."""
    renamed = []
    for submission in group:
        of_project = ids.get(submission.task.project, {})
        edges: dict[str, Edge] = {}
        for edge in submission.edges:
            parent_id = of_project.get(edge.parent_id, edge.parent_id)
            edges[parent_id] = replace(edge, parent_id=parent_id)
        renamed.append(replace(submission, edges=tuple(edges.values())))
    return renamed


def submit(
    request: EnqueueRequest, *, task_id: str, now: float, id_given: bool = True
) -> Submission:
    """The row to insert. The store sets the final status of a task with dependencies. Without a
    caller-supplied id (`id_given`) or key there is nothing to deduplicate, and the row has no hash."""
    check_id("type", request.type)
    check_id("queue", request.queue)
    check_id("id", task_id)
    if request.project != DEFAULT_PROJECT:
        check_project("project", request.project)
    if request.idempotency_key is not None:
        check_name("idempotency_key", request.idempotency_key)
    due_at = _due_at(request, now)
    attempts = check_whole("max_attempts", request.max_attempts, least=1, most=ATTEMPTS_MAX)
    if len(request.depends_on) > EDGES_MAX:
        raise InvalidInput(
            f"{len(request.depends_on)} dependencies: at most {EDGES_MAX} are allowed"
        )
    if request.key is not None:
        check_name("key", request.key)
    payload_json = encode_payload(request.payload)
    metadata_json = _metadata(request.metadata)
    priority = priorities.parse(request.priority)
    task = Task(
        id=task_id,
        type=request.type,
        queue=request.queue,
        priority=priority,
        status=Status.BLOCKED if request.depends_on else Status.QUEUED,
        payload_json=payload_json,
        metadata_json=metadata_json,
        options_json=_options_json(
            replace(request.options, rules=request.rules) if request.rules else request.options
        ),
        attempts=0,
        max_attempts=attempts,
        deaths=0,
        version=1,
        fence=0,
        created_at=now,
        updated_at=now,
        due_at=due_at,
        limits="\n".join(name for name, _ in request.rules) or None,
        waiting_on=len(request.depends_on),
        idempotency_key=request.idempotency_key,
        progress_timeout_seconds=request.progress_timeout_seconds,
        request_hash=request_hash(request, payload_json, metadata_json, priority)
        if id_given or request.idempotency_key is not None
        else None,
        project=request.project,
        fair_key=(request.key or "") if request.fair else None,
        tags_json=_tags_json(request),
        keep_done_seconds=request.keep_done_seconds,
    )
    # The insert of a plain task moves a delay to the time of its commit; a moment stays where it is.
    is_plain = (
        not (request.depends_on or request.rules or request.fair)
        and task.request_hash is None
        and request.run_at is None
        and request.unique is None
    )
    key = "" if request.unique is None else window_key(request.unique, payload_json)
    return Submission(
        *(task, request.depends_on, request.rules, is_plain, id_given, request.unique, key)
    )


def _tags_json(request: EnqueueRequest) -> str | None:
    if not (request.tags or request.type_tags):
        return None
    return tags_json(check_tags({*request.tags, *request.type_tags}))


def _due_at(request: EnqueueRequest, now: float) -> float:
    """When the task may start first. A moment that has passed counts as now."""
    delay = check_seconds("delay", request.delay_seconds, most=DELAY_SECONDS_MAX)
    if request.run_at is None:
        return now + delay
    if delay:
        raise InvalidInput("delay and run_at are both given: use one of them")
    if request.run_at - now > DELAY_SECONDS_MAX:
        years = DELAY_SECONDS_MAX / (365 * 86_400)
        raise InvalidInput(f"run_at is more than {years:g} years away: choose an earlier moment")
    return max(now, request.run_at)


def submit_like(model: Submission, payload: object, task_id: str, now: float) -> Submission:
    """A plain task without a delay that differs from a validated one only in its payload."""
    return like(model, encode_payload(payload), task_id, now)


def like(model: Submission, payload_json: str, task_id: str, now: float) -> Submission:
    """The same with a payload that is JSON."""
    task = replace(
        model.task,
        id=task_id,
        payload_json=payload_json,
        created_at=now,
        updated_at=now,
        due_at=now,
    )
    return Submission(task)


def with_trace(submission: Submission, trace: TraceContext) -> Submission:
    """The same task with the span that enqueues it. The hash of the request stays."""
    task = submission.task
    options = replace(task.options, trace=trace)
    return replace(submission, task=replace(task, options_json=codec.dumps(options)))


def inserted_at(task: Task, at: float) -> Task:
    """The row of a plain task that the store has inserted at this time. A delay counts from then."""
    due_at = at + (task.due_at - task.created_at)
    return replace(task, created_at=at, updated_at=at, due_at=due_at)


def encode_payloads(payloads: Sequence[object]) -> list[str]:
    """`encode_payload` of each, in one call where all have a JSON text."""
    texts = codec.dumps_each(payloads)
    if texts is None:
        return [encode_payload(payload) for payload in payloads]
    for text in texts:
        if len(text) > _SMALL_CHARS:
            _check_text(text, "payload", PAYLOAD_BYTES_MAX)
    return texts


def patch_json(patch: object) -> str | None:
    """A merge patch of payloads as JSON; None for none. InvalidInput unless it is an object with a field."""
    if patch is None:
        return None
    if not isinstance(patch, Mapping) or not patch:
        raise InvalidInput(
            f"patch is {shown(patch)}: give an object with the fields to change, null removes one"
        )
    return encode_payload(patch, what="patch")


def encode_payload(
    payload: object, *, what: str = "payload", limit: int = PAYLOAD_BYTES_MAX
) -> str:
    """Canonical JSON within the limit, or a typed error."""
    try:
        text = codec.dumps(payload)
        if len(text) > _SMALL_CHARS:
            _check_text(text, what, limit)
        codec.check_readable(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise UnserialisablePayload(
            f"{_part(payload)}the {what} cannot be written as JSON: {error}; pass plain values, lists and "
            "dicts"
        ) from None
    return text


def _check_text(text: str, what: str, limit: int) -> None:
    if codec.is_deeper(text, codec.DEPTH_MAX):
        raise UnserialisablePayload(
            f"the {what} is nested deeper than {codec.DEPTH_MAX} levels: make it flatter"
        )
    if len(text) > limit // 4 and len(text.encode()) > limit:
        raise PayloadTooLarge(
            f"the {what} has {len(text.encode())} bytes, the limit is {limit}: "
            "store it elsewhere and pass a reference"
        )


def _part(payload: object) -> str:
    """Names the field that cannot be written, if the payload has fields."""
    if not isinstance(payload, dict):
        return ""
    for name, value in payload.items():
        try:
            codec.check_readable(codec.dumps({name: value}))
        except (TypeError, ValueError, RecursionError):
            return f"{shown(name)} in "
    return ""


def _metadata(metadata: dict[str, object] | None) -> str | None:
    if metadata is None:
        return None
    if not isinstance(metadata, dict):
        raise InvalidInput(f"metadata is a {type(metadata).__name__}: give a dict of notes")
    if not metadata:
        return None
    return encode_payload(metadata, what="metadata", limit=METADATA_BYTES_MAX)


_DEFAULT_OPTIONS: Final = TaskOptions()
_DEFAULT_OPTIONS_JSON: Final = codec.dumps(_DEFAULT_OPTIONS)


def _options_json(options: TaskOptions) -> str:
    return _DEFAULT_OPTIONS_JSON if options == _DEFAULT_OPTIONS else codec.dumps(options)
