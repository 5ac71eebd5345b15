"""The task, its statuses and the one table of legal transitions.

Promises: the code, the SQL checks, the diagram and the docs follow `TRANSITIONS`.
Never: I/O, reads a clock, makes ids.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum
from functools import lru_cache
from typing import Final

import msgspec

from holdfast.core import codec
from holdfast.core.limit import LimitRule
from holdfast.core.tags import read_tags
from holdfast.tracing import TraceContext


class Status(StrEnum):
    """The state of a task in `TRANSITIONS`."""

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


PRIORITY_NAMES: Final = tuple(priority.name.lower() for priority in Priority)
"""By value. For code that runs once per task: the name of an enum member is computed at each access."""


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
    # An operator replays a dead letter. Its dependents, which failed with it, are revived: they wait again.
    S.FAILED: frozenset({S.QUEUED, S.BLOCKED, S.ABORTED}),
    S.COMPLETED: frozenset(),
    S.ABORTED: frozenset(),
}
TERMINAL: Final = frozenset(s for s, nexts in TRANSITIONS.items() if not nexts)
"""Statuses that are final. `failed` is not: a dead letter may be replayed."""
ENDED: Final = TERMINAL | {S.FAILED}
"""Statuses of a task that has ended. A task in `failed` may still be replayed."""
LEASED: Final = frozenset({S.RUNNING, S.STUCK})
"""Statuses in which a runner holds the task under a lease."""
# For code that runs once per task: in Python 3.11 an enum member costs twenty times as much as a name.
QUEUED: Final = S.QUEUED
RUNNING: Final = S.RUNNING
COMPLETED: Final = S.COMPLETED
FAILED: Final = S.FAILED


class RunId(msgspec.Struct, frozen=True, order=True, gc=False):
    """The identity of one run: one claim of a task. A claim raises the fence, and so does every change that
    takes the task from its runner. A task id does not identify a run: a process may hold the
    next run of a task while the previous one unwinds."""

    task_id: str
    fence: int


class TaskOptions(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The options of a task that never change and that no query filters by."""

    timeout_seconds: float | None = None
    """None: the node's setting applies. NO_TIMEOUT: no timeout."""
    retry_base_seconds: float = 1.0
    retry_cap_seconds: float = 60.0
    max_deaths: int = 3
    rules: tuple[tuple[str, LimitRule], ...] = ()
    """The limits that the task counts against. A limit whose row was pruned is restored from here."""
    pinned: bool = False
    """Whether the task stays reserved for the node of `assigned_to` after a claim: no other can run it."""
    lost_after_seconds: float | None = None
    """A run that has got its go is never repeated by an ended lease: its outcome is unknown for this long,
    then it is lost (`start_once.py`). None: an ended lease returns the task to the queue."""
    retry_policy: str = ""
    """The policy of the pauses between attempts (`retry.py`). Empty: that of the engine."""
    trace: TraceContext | None = None
    """The span of the producer, which runs of the task go on from."""


NO_TIMEOUT: Final = 0.0
EXECUTION_TYPE: Final = "fleet.run"
"""The type of tasks that are executions of jobs of the fleet."""
DEFAULT_PROJECT: Final = "default"
EXTERNAL: Final = "external"
"""The type and the queue of tasks that nodes create without naming others. No worker takes such a task; a
node claims it by its id."""


def timeout_of(options: TaskOptions, default: float | None) -> float | None:
    """How long an attempt may take; None for no timeout."""
    seconds = options.timeout_seconds
    return default if seconds is None else seconds or None


def described(message: str, error_type: str) -> str:
    """An error with its class, in one line: `KeyError: 'customer'`. A message that begins with the class
    stays as it is."""
    return (
        message if not error_type or message.startswith(error_type) else f"{error_type}: {message}"
    )


class Failure(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The evidence of a failed attempt."""

    kind: FailureKind
    message: str
    error_type: str = ""
    traceback: str = ""
    fingerprint: str = ""
    cause: str | None = None
    """For kind `dependency`: the id of the parent that failed or was aborted."""
    node: str | None = None


class Task(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """One unit of work. The fields are the columns of the store; times are epoch seconds."""

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
    """The node that runs the task; of a paused one, the node that ran it."""
    lease_until: float | None = None
    result_json: str | None = None
    failure_json: str | None = None
    fingerprint: str | None = None
    checkpoint_json: str | None = None
    progress_json: str | None = None
    limits: str | None = None
    """The names of the limits that the task counts against, one a line."""
    gate: str | None = None
    """The limit that the task waits at while it is parked."""
    waiting_on: int = 0
    """Dependencies that are not settled yet."""
    has_dependents: int = 0
    idempotency_key: str | None = None
    request_hash: str | None = None
    held_by: str | None = None
    """The actor that holds, paused or aborted the task, and the reason."""
    project: str = DEFAULT_PROJECT
    """The scope that the task belongs to. Queues and types are shared by projects."""
    claim_id: str | None = None
    """The name that the runner gave its claim. A repeated claim of this name gets the same answer."""
    lease_seconds: float | None = None
    """The lease duration of this claim; None: that of the engine that claimed it."""
    progress_timeout_seconds: float | None = None
    """How long a runner may go without progress; afterwards the task is stuck. None: for ever."""
    progress_due_at: float | None = None
    """When the runner must have reported progress. None: never, or no run."""
    assigned_to: str | None = None
    """The only node that may claim the task, until `assigned_until`."""
    assigned_until: float | None = None
    fair_key: str | None = None
    """Of a task whose type is fair: the key whose turn it waits for (`turns.py`)."""
    tags_json: str | None = None
    keep_done_seconds: float | None = None
    """How long the task is kept after it was completed or aborted. None: by the setting `keep_done`."""

    @property
    def event_project(self) -> str:
        """The project as events write it: empty for the default one."""
        return "" if self.project == DEFAULT_PROJECT else self.project

    @property
    def run(self) -> RunId:
        """The run that this claimed task belongs to."""
        return RunId(self.id, self.fence)

    @property
    def payload(self) -> codec.Json:
        """The input of the handler."""
        return codec.loads(self.payload_json)

    @property
    def metadata(self) -> dict[str, codec.Json]:
        """The caller's notes; Holdfast does not read them."""
        return codec.loads_object(self.metadata_json) if self.metadata_json else {}

    @property
    def tags(self) -> tuple[str, ...]:
        """The names by which lists find the task, sorted."""
        return read_tags(self.tags_json) if self.tags_json is not None else ()

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
        """Why the task has no result, in one line: the actor that aborted it, or the latest failure."""
        if self.status is Status.ABORTED:
            return f"by {self.held_by}" if self.held_by else "no reason was recorded"
        failure = self.failure
        if failure is None:
            return "no error was recorded"
        return described(failure.message, failure.error_type)

    @property
    def progress(self) -> codec.Json:
        return codec.loads(self.progress_json) if self.progress_json is not None else None

    @property
    def checkpoint(self) -> codec.Json:
        """The value of the latest `ctx.save()`."""
        return codec.loads(self.checkpoint_json) if self.checkpoint_json is not None else None

    @property
    def limit_names(self) -> tuple[str, ...]:
        return _names(self.limits) if self.limits else ()

    @property
    def is_dead(self) -> bool:
        """Whether the task is a dead letter, which may be replayed. A failed execution of the fleet is none:
        it is the outcome of a host, and its job is retried."""
        return self.status is Status.FAILED and self.type != EXECUTION_TYPE


OPTIONS: Final = msgspec.json.Decoder(TaskOptions)


@lru_cache(maxsize=1_000)
def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split("\n"))


@lru_cache(maxsize=1_000)
def _options(text: str) -> TaskOptions:
    """Cached, because the tasks of a type share the same text."""
    return OPTIONS.decode(text)


FAILURE: Final = msgspec.json.Decoder(Failure)


def may_move(before: Status, after: Status) -> bool:
    """Whether the table allows this transition."""
    return after in TRANSITIONS[before]
