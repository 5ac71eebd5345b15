"""The JSON objects of queues, nodes, locks, schedules, conflicts, projects, tokens and the audit, as in
`models`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.client.models import Json, TaskView


class QueueView(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    counts: dict[str, int] = {}
    oldest_due_seconds: float | None = None
    paused_at: str | None = None
    paused_by: str | None = None
    reason: str | None = None
    version: int = 0
    """How often it was paused or resumed."""


class TypeRow(msgspec.Struct, frozen=True, kw_only=True):
    """A type of tasks that a worker has registered."""

    name: str
    queue: str


class KeyWeightView(msgspec.Struct, frozen=True, kw_only=True):
    """How many tasks a key of a fair type starts in one turn."""

    key: str
    weight: int
    set_by: str = ""
    set_at: str | None = None


class DeadGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Dead letters with one cause."""

    fingerprint: str
    count: int
    type: str = ""
    error: str = ""
    error_type: str = ""
    first_at: str | None = None
    last_at: str | None = None
    sample_id: str | None = None


class OperationView(msgspec.Struct, frozen=True, kw_only=True):
    """A change of many tasks. A dry run has `count`, `eligible`, `skipped` and `example` only."""

    id: str | None = None
    action: str = ""
    q: str | None = None
    cause: str = ""
    """The error that the tasks had, if the query named its fingerprint."""
    state: str = ""
    total: int = 0
    done: int = 0
    failed: int = 0
    failed_again: int = 0
    """Of a replay with `stop_on_fail_share`: tasks that were dead letters again at the last look."""
    count: int | None = None
    eligible: int | None = None
    skipped: list[dict[str, Any]] = []
    example: dict[str, Any] | None = None
    """Of a dry run with a patch: `id` of the first task, its payload `before` and `after`."""
    errors: list[dict[str, Any]] = []
    """Refused tasks, by the code of the refusal."""
    detail: str = ""
    """Why it was stopped."""
    args: dict[str, Any] = {}
    rate_per_second: float | None = None
    canary: int | None = None
    stop_on_fail_share: float | None = None
    actor: str | None = None
    reason: str | None = None
    created_at: str | None = None
    updated_at: str | None = None
    version: int | None = None


class NodeBlock(msgspec.Struct, frozen=True, kw_only=True):
    """A block of the event loop of a node."""

    seconds: float
    task_id: str = ""
    """The task whose handler blocks. Empty: something else does."""
    task_type: str = ""


class NodeView(msgspec.Struct, frozen=True, kw_only=True):
    """A process that runs tasks. One that has not registered has no project, kind, state, incarnation,
    capabilities or labels."""

    id: str
    project: str | None = None
    kind: str | None = None
    state: str | None = None
    live: bool | None = None
    incarnation: int | None = None
    capabilities: list[str] | None = None
    labels: dict[str, Any] | None = None
    registered_at: str | None = None
    started_at: str | None = None
    seen_at: str | None = None
    seen_seconds_ago: float | None = None
    lease_seconds: float | None = None
    heartbeat_seconds: float | None = None
    """The time between two heartbeats of the node."""
    heartbeats: list[float] | None = None
    """The longest silence in each of its last 24 intervals, in seconds, the oldest first, as the gateway that
    answers knows it. None: this gateway has not heard the node."""
    skew_seconds: float | None = None
    """How far the clock of the node is ahead, by the time that its last message named; the way of the message
    is part of it. None: it names none."""
    running: int | None = None
    lag_events: int | None = None
    workers: int = 0
    busy: int = 0
    queues: list[str] = []
    types: list[str] = []
    skipped: dict[str, str] = {}
    """Schedules that the node cannot fire, with the reason."""
    deaf_handlers: int = 0
    abandoned_threads: int = 0
    troubles: int = 0
    blocks: int = 0
    """How often a handler has blocked the event loop since the start."""
    blocked: NodeBlock | None = None
    """While a handler blocks the event loop."""


class LockRow(msgspec.Struct, frozen=True, kw_only=True):
    """A lock in a list."""

    resource: str
    held: bool = True
    owner: str | None = None
    fence: int | None = None
    claim_id: str | None = None
    ttl_seconds: float | None = None
    held_seconds: float | None = None
    remaining_seconds: float | None = None


class WaiterView(msgspec.Struct, frozen=True, kw_only=True):
    """A claim that waits for a lock."""

    owner: str
    claim_id: str
    waited_seconds: float = 0.0


class LockAct(msgspec.Struct, frozen=True, kw_only=True):
    """A change that an operator made to a lock."""

    resource: str
    at: str | None = None
    action: str = ""
    actor: str = ""
    reason: str = ""
    fence: int = 0
    claim_id: str = ""
    owner: str = ""


class LockView(LockRow, frozen=True, kw_only=True):
    """A lock with its waiters, in order, and the acts of operators, the latest first."""

    waiters: list[WaiterView] = []
    audit: list[LockAct] = []


class ScheduleView(msgspec.Struct, frozen=True, kw_only=True):
    """A task that is enqueued at recurring times. `owner` is `code` for one that an application defines, and
    `remote` for one of a worker without a database."""

    name: str
    spec: str = ""
    timezone: str = "UTC"
    type: str = ""
    payload: Json = None
    queue: str | None = None
    priority: str | None = None
    next_at: str | None = None
    fired_at: str | None = None
    paused: bool = False
    owner: str | None = None
    project: str = "default"
    version: int = 1
    upcoming: list[str] = []
    """The next firings, of a schedule that is read alone."""


class ScheduleRun(msgspec.Struct, frozen=True, kw_only=True):
    """The task that a schedule enqueued now."""

    task: TaskView


class BackfillRow(msgspec.Struct, frozen=True, kw_only=True):
    """A past time of a schedule, and its task."""

    at: str
    id: str
    status: str = ""
    created: bool = False
    """False: an earlier backfill made the task."""


class Backfilled(msgspec.Struct, frozen=True, kw_only=True):
    """The past times of a schedule that have their tasks."""

    items: list[BackfillRow] = []
    created: int = 0
    """How many tasks this call has made."""


class ConflictRow(msgspec.Struct, frozen=True, kw_only=True):
    """A stored conflict between a node and the server, in a list."""

    id: str
    project: str | None = None
    task_id: str = ""
    client_id: str | None = None
    kind: str = ""
    state: str = ""
    node: str | None = None
    mutation_id: str | None = None
    base_version: int = 0
    server_version: int = 0
    resolution: str | None = None
    settled_by: str | None = None
    reason: str | None = None
    created_at: str | None = None
    version: int = 0


class ConflictView(ConflictRow, frozen=True, kw_only=True):
    """A conflict with both sides."""

    server: Json = None
    client: Json = None
    base: Json = None
    """What both sides began with, as far as the events of the task have it."""
    server_written_at: str | None = None
    """When the content of the server was written. The node's arrived at `created_at`."""
    server_written_by: str | None = None


class ProjectView(msgspec.Struct, frozen=True, kw_only=True):
    """A project and its strategies for conflicts."""

    id: str
    strategy: str = ""
    overrides: dict[str, str] = {}
    clock: int = 0
    version: int = 0


class PresetView(msgspec.Struct, frozen=True, kw_only=True):
    """A search of tasks or a command of the fleet that a project keeps under a name."""

    project: str
    kind: str
    name: str
    body: dict[str, Json] = {}
    changed_by: str = ""
    changed_at: str = ""
    version: int = 0


class Settled(msgspec.Struct, frozen=True, kw_only=True):
    conflict: ConflictView
    task: TaskView | None = None


class TokenRow(msgspec.Struct, frozen=True, kw_only=True):
    """A token, without its secret."""

    id: str
    kind: str = ""
    name: str = ""
    principal: str | None = None
    roles: list[str] = []
    projects: list[str] = []
    scopes: list[str] | None = None
    node_id: str | None = None
    uses_left: int | None = None
    state: str = ""
    created_by: str | None = None
    created_at: str | None = None
    expires_at: str | None = None
    revoked_at: str | None = None
    last_used_at: str | None = None


class TokenView(TokenRow, frozen=True, kw_only=True):
    """A new token. `token` is its secret, which cannot be read again."""

    token: str | None = None


class AuditView(msgspec.Struct, frozen=True, kw_only=True):
    """An act of an operator. The hash of each covers the one before."""

    seq: int
    at: str | None = None
    actor: str = ""
    operation: str = ""
    project: str = ""
    subject: str = ""
    reason: str = ""
    before_version: int | None = None
    after_version: int | None = None
    detail: Json = None
    request_id: str = ""
    prev_hash: str = ""
    hash: str = ""


class Who(msgspec.Struct, frozen=True, kw_only=True):
    """The principal of a token."""

    name: str
    kind: str = ""
    roles: list[str] = []
    projects: list[str] = []
    scopes: list[str] | None = None
    node: str | None = None
    token_id: str | None = None
