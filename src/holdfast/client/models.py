"""The JSON objects of the API `/api/v1`, one struct for each shape.

The gateway and the command line write them (`holdfast.queue.views`, `holdfast.sync.views`); the client and a
`TaskQueue` behind a gateway read them. They live here because the client ships without the server.

Promises: a field that this version does not know is ignored; one that an older gateway does not send has its
default. Times are texts (RFC 3339, UTC, milliseconds), for display; durations are seconds.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, TypeAlias, TypedDict

import msgspec

Json: TypeAlias = Any
"""A JSON value: None, bool, number, string, list or dict."""


class SubmitOptions(TypedDict, total=False):
    """Options of a new task, in seconds. The names with a unit are those of the API."""

    queue: str
    priority: str | int
    max_attempts: int
    delay: float | timedelta
    run_at: datetime
    timeout: float | timedelta | None
    progress_timeout: float | timedelta | None
    delay_seconds: float
    timeout_seconds: float | None
    progress_timeout_seconds: float | None
    key: str
    idempotency_key: str
    id: str
    depends_on: list[str | dict[str, str]]
    metadata: dict[str, Any]
    tags: list[str]
    project: str
    unique: dict[str, Any] | None
    """A window: `{"until": "started"}`, `{"until": "ended"}` or `{"period_seconds": 60}`, each with `by`."""
    traceparent: str
    """The span that enqueues the task (W3C Trace Context), which its runs go on from."""
    tracestate: str


class NewTask(SubmitOptions, total=False):
    """A task of `submit_many`. `type` is required."""

    type: str
    payload: Any


class ProgressView(msgspec.Struct, frozen=True, kw_only=True):
    """The latest report of a runner."""

    done: Json = 0.0
    note: Json = ""
    phase: Json = ""
    iteration: Json = 0
    subtasks: Json = []


class FailureView(msgspec.Struct, frozen=True, kw_only=True):
    """The evidence of the latest failed attempt."""

    kind: str
    message: str = ""
    error_type: str = ""
    traceback: str = ""
    fingerprint: str = ""
    cause: str | None = None
    """For kind `dependency`: the id of the parent."""
    node: str | None = None


class DependencyView(msgspec.Struct, frozen=True, kw_only=True):
    """A task that another one waits for. `status` is null when it was pruned."""

    id: str
    policy: str = "fail"
    status: str | None = None
    settled: bool = False


class TaskFields(msgspec.Struct, frozen=True, kw_only=True):
    """What a task in a list and a single task have in common."""

    id: str
    status: str
    project: str = "default"
    type: str = ""
    queue: str = ""
    priority: str = ""
    held_by: str | None = None
    gate: str | None = None
    version: int = 0
    fence: int = 0
    attempts: int = 0
    max_attempts: int = 0
    deaths: int = 0
    created_at: str | None = None
    updated_at: str | None = None
    due_at: str | None = None
    started_at: str | None = None
    finished_at: str | None = None
    node: str | None = None
    claim_id: str | None = None
    lease_remaining_seconds: float | None = None
    progress: ProgressView | None = None
    payload_bytes: int | None = None
    result_bytes: int | None = None
    error: str | None = None
    fingerprint: str | None = None
    waiting_on: int = 0
    """Dependencies that are not settled yet."""
    idempotency_key: str | None = None
    tags: list[str] = []


class TaskRow(TaskFields, frozen=True, kw_only=True):
    """A task in a list: previews and sizes of its bodies, the start of its error."""

    failure_kind: str | None = None
    error_type: str | None = None
    """The class of the exception of its latest failure."""
    payload_preview: str | None = None
    result_preview: str | None = None


class TaskView(TaskFields, frozen=True, kw_only=True):
    """A task with its bodies."""

    client_id: str | None = None
    desired: str | None = None
    lease_until: str | None = None
    progress_due_at: str | None = None
    """When the task counts as stuck unless its runner reports progress."""
    assigned_to: str | None = None
    """The only node that may claim the task."""
    assigned_until: str | None = None
    """When any node may claim it again. None: never."""
    payload: Json = None
    result: Json = None
    checkpoint: Json = None
    metadata: dict[str, Any] = {}
    metrics: dict[str, Any] = {}
    options: dict[str, Any] = {}
    limits: list[str] = []
    failure: FailureView | None = None
    job_id: str | None = None
    depends_on: list[DependencyView] = []
    """The answer to a change may leave out this and `dependents`."""
    dependents: list[str] = []


class TaskRef(msgspec.Struct, frozen=True, kw_only=True):
    """A task that was enqueued. `created` is false when an earlier call enqueued it."""

    id: str
    status: str
    created: bool = True
    pressure: str = "accepted"
    task: TaskView | None = None
    """None for a task of a batch."""


class Reason(msgspec.Struct, frozen=True):
    """One reason why a task does not run."""

    code: str
    text: str
    data: dict[str, Any] = {}


class Why(msgspec.Struct, frozen=True):
    """What a task waits for. Without reasons it may start at any moment."""

    task_id: str
    status: str
    reasons: list[Reason] = []


class EventView(msgspec.Struct, frozen=True, kw_only=True):
    """An event of the feed."""

    position: str
    kind: str
    at: str | None = None
    task_id: str | None = None
    type: str | None = None
    project: str | None = None
    version: int | None = None
    data: dict[str, Any] = {}


class TaskGroupView(msgspec.Struct, frozen=True, kw_only=True):
    """A group of tasks that were enqueued together, and how far it is."""

    id: str
    project: str = "default"
    size: int = 0
    created_at: str | None = None
    counts: dict[str, int] = {}
    """Its tasks by status. Those that were pruned are missing."""
    ended: int = 0
    open: int = 0
    pruned: int = 0
    is_ended: bool = False


class TaskGroupRef(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to the enqueue of a group. `items` are in the order of the request."""

    id: str
    items: list[TaskRef] = []
    pressure: str = "accepted"


class OutputChunk(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes of an output stream. `next` is where the following chunk starts."""

    data: bytes
    stream: str = "stdout"
    fence: int = 0
    start: int = 0
    next: int = 0
    complete: bool = False
    gaps: list[dict[str, int]] = []


class EffectView(
    msgspec.Struct, frozen=True, kw_only=True, rename={"before": "from", "after": "to"}
):
    """How an intervention changed a task."""

    before: str
    after: str
    fence: int = 0


class Intervention(msgspec.Struct, frozen=True, kw_only=True):
    """An act of an operator on a task. `state` is about the runner; the task has changed at once."""

    type: str
    id: str | None = None
    task_id: str = ""
    project: str | None = None
    args: dict[str, Any] = {}
    reason: str = ""
    actor: str | None = None
    claimed_by: str | None = None
    state: str = ""
    effect: EffectView | None = None
    """None if the task was already so."""
    target_node: str | None = None
    target_fence: int | None = None
    issued_at: str | None = None
    delivered_at: str | None = None
    ended_at: str | None = None
    expires_at: str | None = None
    detail: Json = None


class DryRunView(msgspec.Struct, frozen=True, kw_only=True):
    """What an intervention would do."""

    task_id: str
    effect: EffectView | None = None
    """None if the task is already so."""
    runner: str | None = None
    """The node that would lose the task."""
    dependents: int = 0
    would_run_next: bool = False
    """Whether the task would be ready at once."""


class Intervened(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to an intervention."""

    intervention: Intervention
    task: TaskView | None = None


class DecisionRow(msgspec.Struct, frozen=True, kw_only=True):
    """A question of a task to a person. `choice` is null until it is decided."""

    id: str
    task_id: str = ""
    job_id: str | None = None
    project: str | None = None
    key: str | None = None
    question: str = ""
    options: list[Json] = []
    schema: Json = None
    default: Json = None
    assignees: list[str] = []
    deadline_at: str | None = None
    remaining_seconds: float | None = None
    state: str = ""
    choice: Json = None
    data: Json = None
    by: str | None = None
    reason: str | None = None
    at: str | None = None
    version: int = 0


class AskedPointView(msgspec.Struct, frozen=True, kw_only=True):
    """The checkpoint with which a task asked."""

    type: str = ""
    note: str = ""
    data: Json = None
    created_at: str | None = None


class DecisionView(DecisionRow, frozen=True, kw_only=True):
    """A decision with the checkpoint of its task."""

    checkpoint: AskedPointView | None = None


class CheckpointView(msgspec.Struct, frozen=True, kw_only=True):
    """A checkpoint of a task."""

    id: str
    fence: int = 0
    attempt: int = 0
    nth: int = 0
    type: str = ""
    note: str = ""
    data: Json = None
    created_at: str | None = None
