"""What a gateway answers, as typed values.

Promises: a field that this version does not know is ignored; one that an older gateway does not send has its
default. Times are texts (RFC 3339, UTC), for display; durations are seconds.
"""

from __future__ import annotations

from typing import Any, TypeAlias, TypedDict

import msgspec

Json: TypeAlias = Any
"""A JSON value: None, bool, number, string, list or dict."""


class SubmitOptions(TypedDict, total=False):
    """Options of a new task."""

    queue: str
    priority: str | int
    max_attempts: int
    delay_seconds: float
    timeout_seconds: float | None
    progress_timeout_seconds: float | None
    key: str
    idempotency_key: str
    id: str
    depends_on: list[str | dict[str, str]]
    metadata: dict[str, Any]
    project: str


class NewTask(SubmitOptions, total=False):
    """A task of `submit_many`. `type` is required."""

    type: str
    payload: Any


class TaskRow(msgspec.Struct, frozen=True, kw_only=True):
    """A task in a list: previews and sizes of its bodies."""

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
    progress: Json = None
    payload_preview: str | None = None
    payload_bytes: int | None = None
    result_preview: str | None = None
    result_bytes: int | None = None
    error: str | None = None
    fingerprint: str | None = None
    idempotency_key: str | None = None


class TaskView(TaskRow, frozen=True, kw_only=True):
    """A task with its bodies."""

    client_id: str | None = None
    desired: str | None = None
    lease_until: str | None = None
    payload: Json = None
    result: Json = None
    metadata: dict[str, Any] = {}
    metrics: dict[str, Any] | None = None
    failure: dict[str, Any] | None = None
    depends_on: list[dict[str, Any]] = []
    dependents: list[str] | int = []
    job_id: str | None = None


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


class OutputChunk(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes of an output stream. `next` is where the following chunk starts."""

    data: bytes
    stream: str = "stdout"
    fence: int = 0
    start: int = 0
    next: int = 0
    complete: bool = False
    gaps: list[dict[str, int]] = []


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
    effect: dict[str, Any] | None = None
    target_node: str | None = None
    target_fence: int | None = None
    issued_at: str | None = None
    delivered_at: str | None = None
    ended_at: str | None = None
    expires_at: str | None = None
    detail: Json = None


class Intervened(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to an intervention."""

    intervention: Intervention
    task: TaskView | None = None
    dry_run: bool = False


class QueueView(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    counts: dict[str, int] = {}
    oldest_due_seconds: float | None = None
    paused_at: str | None = None
    paused_by: str | None = None
    reason: str | None = None
    version: int | None = None


class DeadGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Dead letters with one cause."""

    fingerprint: str
    count: int
    type: str = ""
    error: str = ""
    error_type: str | None = None
    first_at: str | None = None
    last_at: str | None = None
    sample_id: str | None = None


class OperationView(msgspec.Struct, frozen=True, kw_only=True):
    """A change of many tasks. A dry run has `count` and `skipped` only."""

    id: str | None = None
    action: str = ""
    q: str | None = None
    state: str = ""
    total: int = 0
    done: int = 0
    failed: int = 0
    count: int | None = None
    eligible: int | None = None
    skipped: list[dict[str, Any]] = []
    actor: str | None = None
    reason: str | None = None


class NodeView(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    state: str | None = None
    is_live: bool | None = None
    project: str | None = None
    incarnation: int | None = None
    capabilities: list[str] = []
    labels: Json = None
    started_at: str | None = None
    seen_at: str | None = None
    seen_seconds_ago: float | None = None
    workers: int | None = None
    busy: int | None = None
    queues: Json = None
    types: Json = None


class LockView(msgspec.Struct, frozen=True, kw_only=True):
    resource: str
    is_held: bool = True
    owner: str | None = None
    fence: int | None = None
    claim_id: str | None = None
    ttl_seconds: float | None = None
    held_seconds: float | None = None
    remaining_seconds: float | None = None
    waiters: list[dict[str, Any]] = []
    audit: list[dict[str, Any]] = []


class ScheduleView(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    spec: str = ""
    timezone: str = "UTC"
    type: str = ""
    payload: Json = None
    queue: str | None = None
    priority: str | None = None
    project: str | None = None
    next_at: str | None = None
    fired_at: str | None = None
    paused: bool = False
    version: int | None = None


class DecisionView(msgspec.Struct, frozen=True, kw_only=True):
    """A question of a task to a person."""

    id: str
    task_id: str = ""
    job_id: str | None = None
    project: str | None = None
    key: str | None = None
    question: str = ""
    options: Json = None
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
    checkpoint: dict[str, Any] | None = None
    version: int = 0


class ConflictView(msgspec.Struct, frozen=True, kw_only=True):
    """A stored conflict between a node and the server, with both sides."""

    id: str
    task_id: str = ""
    project: str | None = None
    kind: str = ""
    state: str = ""
    node: str | None = None
    server: Json = None
    client: Json = None
    created_at: str | None = None
    settled_at: str | None = None
    settled_by: str | None = None
    version: int = 0


class Settled(msgspec.Struct, frozen=True, kw_only=True):
    conflict: ConflictView
    task: TaskView | None = None


class TokenView(msgspec.Struct, frozen=True, kw_only=True):
    """A token. `token` is its secret, in the answer to its creation only."""

    id: str
    token: str | None = None
    kind: str = ""
    name: str = ""
    principal: str | None = None
    roles: list[str] = []
    projects: list[str] = []
    scopes: list[str] | None = None
    state: str = ""
    created_by: str | None = None
    created_at: str | None = None
    expires_at: str | None = None
    revoked_at: str | None = None
    last_used_at: str | None = None
    uses_left: int | None = None


class Who(msgspec.Struct, frozen=True, kw_only=True):
    """The principal of a token."""

    name: str
    kind: str = ""
    roles: list[str] = []
    projects: list[str] = []
    scopes: list[str] | None = None
    node: str | None = None
    token_id: str | None = None
