"""The task, its statuses and the one table of legal transitions.

Promises: `TRANSITIONS` is the source of the code, the SQL checks, the diagram and the docs.
Never: I/O, clocks, ids made here.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum
from functools import lru_cache
from typing import Final

import msgspec

from holdfast.core import codec
from holdfast.core.limit import LimitRule


class Status(StrEnum):
    """Where a task is in its life."""

    BLOCKED = "blocked"
    QUEUED = "queued"
    RUNNING = "running"
    PAUSED = "paused"
    STUCK = "stuck"
    COMPLETED = "completed"
    FAILED = "failed"
    ABORTED = "aborted"


class Priority(IntEnum):
    """Lower runs first."""

    CRITICAL = 0
    HIGH = 1
    NORMAL = 2
    LOW = 3


class FailureKind(StrEnum):
    """Why an attempt, or the task, ended without a result."""

    ERROR = "error"
    TIMEOUT = "timeout"
    LOST = "lost"
    DEPENDENCY = "dependency"
    REJECTED = "rejected"


S = Status
TRANSITIONS: Final[dict[Status, frozenset[Status]]] = {
    S.BLOCKED: frozenset({S.QUEUED, S.FAILED, S.ABORTED}),
    S.QUEUED: frozenset({S.RUNNING, S.ABORTED}),
    S.RUNNING: frozenset({S.COMPLETED, S.FAILED, S.PAUSED, S.STUCK, S.ABORTED, S.QUEUED}),
    S.PAUSED: frozenset({S.RUNNING, S.QUEUED, S.COMPLETED, S.FAILED, S.ABORTED}),
    S.STUCK: frozenset({S.RUNNING, S.QUEUED, S.FAILED, S.ABORTED}),
    # A dead letter that is revived with the parent it failed with waits for that parent again.
    S.FAILED: frozenset({S.QUEUED, S.BLOCKED, S.ABORTED}),
    S.COMPLETED: frozenset(),
    S.ABORTED: frozenset(),
}
TERMINAL: Final = frozenset(s for s, nexts in TRANSITIONS.items() if not nexts)
ENDED: Final = TERMINAL | {S.FAILED}
"""Statuses in which nobody works on the task; `failed` may still be replayed."""
# For what runs once per task: in Python 3.11 a member costs twenty times as much as a name.
QUEUED: Final = S.QUEUED
RUNNING: Final = S.RUNNING
COMPLETED: Final = S.COMPLETED
FAILED: Final = S.FAILED


class RunId(msgspec.Struct, frozen=True, order=True, gc=False):
    """The name of one run: one claim of a task. A task's id alone does not name a run: the same process may
    hold the next run of a task while the one before it unwinds."""

    task_id: str
    fence: int


class TaskOptions(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What a task was enqueued with that never changes and no query asks for."""

    timeout_seconds: float | None = None
    """None leaves it to the node's settings, NO_TIMEOUT means none at all."""
    retry_base_seconds: float = 1.0
    retry_cap_seconds: float = 60.0
    max_deaths: int = 3
    rules: tuple[tuple[str, LimitRule], ...] = ()
    """The limits that it counts against, so that one that was forgotten meanwhile can come back."""


NO_TIMEOUT: Final = 0.0


def timeout_of(options: TaskOptions, default: float | None) -> float | None:
    """How long an attempt may take; None for as long as it likes."""
    said = options.timeout_seconds
    return default if said is None else said or None


class Failure(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The evidence of a failed attempt."""

    kind: FailureKind
    message: str
    error_type: str = ""
    traceback: str = ""
    fingerprint: str = ""
    cause: str | None = None
    """For kind `dependency`: the task that it failed with."""
    node: str | None = None


class Task(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """One unit of work, as the store has it; the fields are its columns, times are epoch seconds."""

    id: str
    type: str
    queue: str
    priority: Priority
    status: Status
    payload_json: str
    metadata_json: str | None
    options_json: str
    attempts: int
    max_attempts: int
    deaths: int
    version: int
    fence: int
    created_at: float
    updated_at: float
    due_at: float
    started_at: float | None = None
    finished_at: float | None = None
    node: str | None = None
    lease_until: float | None = None
    result_json: str | None = None
    failure_json: str | None = None
    fingerprint: str | None = None
    checkpoint_json: str | None = None
    progress_json: str | None = None
    limits: str | None = None
    """Names of the limits it counts against, joined by a line break."""
    gate: str | None = None
    """The limit that it waits at, out of the way of other tasks."""
    waiting_on: int = 0
    """Dependencies that are not settled yet."""
    has_dependents: int = 0
    idempotency_key: str | None = None
    request_hash: str | None = None
    held_by: str | None = None
    """Who paused or aborted it, and why."""

    @property
    def run(self) -> RunId:
        """The run that this claimed task belongs to."""
        return RunId(self.id, self.fence)

    @property
    def payload(self) -> codec.Json:
        """What the handler works on."""
        return codec.loads(self.payload_json)

    @property
    def metadata(self) -> dict[str, codec.Json]:
        """The caller's notes; Holdfast does not read them."""
        return codec.loads_object(self.metadata_json) if self.metadata_json else {}

    @property
    def result(self) -> codec.Json:
        """The handler's value, once completed."""
        return codec.loads(self.result_json) if self.result_json is not None else None

    @property
    def options(self) -> TaskOptions:
        return _options(self.options_json)

    @property
    def failure(self) -> Failure | None:
        """The latest failure."""
        return FAILURE.decode(self.failure_json) if self.failure_json is not None else None

    @property
    def error(self) -> str | None:
        """The latest failure in one line."""
        failure = self.failure
        return failure.message if failure else None

    @property
    def why_ended(self) -> str:
        """Why it has no result, in one line: who aborted it, or the latest failure."""
        if self.status is Status.ABORTED:
            return f"by {self.held_by}" if self.held_by else "no reason was recorded"
        return self.error or "no error was recorded"

    @property
    def progress(self) -> codec.Json:
        return codec.loads(self.progress_json) if self.progress_json is not None else None

    @property
    def checkpoint(self) -> codec.Json:
        """What the latest `ctx.save()` kept."""
        return codec.loads(self.checkpoint_json) if self.checkpoint_json is not None else None

    @property
    def limit_names(self) -> tuple[str, ...]:
        return _names(self.limits) if self.limits else ()

    @property
    def is_dead(self) -> bool:
        """A task that rests in failed is a dead letter."""
        return self.status is Status.FAILED


OPTIONS: Final = msgspec.json.Decoder(TaskOptions)


@lru_cache(maxsize=1_000)
def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split("\n"))


@lru_cache(maxsize=1_000)
def _options(text: str) -> TaskOptions:
    """Few texts for many tasks: a type's tasks share theirs."""
    return OPTIONS.decode(text)


FAILURE: Final = msgspec.json.Decoder(Failure)


def may_move(before: Status, after: Status) -> bool:
    """Whether the table allows it."""
    return after in TRANSITIONS[before]
