"""The messages of worker sync as plain data: what a worker and a gateway send each other.

The same structs serve gRPC, WebSocket and HTTP. Names and defaults are those of
`proto/sync/v1/sync.proto`; in JSON they are camelCase, with `type` in place of the oneof.
Promises: a default stands for "not given", as in protocol buffers. Durations are milliseconds.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import msgspec

PROTOCOL: Final = "holdfast.worker.v1"
WINDOW_FRAMES: Final = 64
"""Messages that a worker may have sent without an acknowledgement."""
WINDOW_FRAMES_MAX: Final = 1_000
"""The largest window that a server may set: answers to this many messages are kept for repeats."""
WINDOW_BYTES: Final = 1_048_576
"""Bytes of those messages."""
CHANGES_MAX: Final = 500
"""Changes of one message, of all kinds together."""
CHUNK_BYTES_MAX: Final = 262_144
"""Raw bytes of one output chunk."""
JSON_CHUNK_BYTES_MAX: Final = 32_768
"""The same in a JSON message."""


class _Message(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    rename="camel",
    omit_defaults=True,
    forbid_unknown_fields=True,
):
    """Base of all messages: see the module."""


class HeldRunState(_Message, frozen=True, kw_only=True):
    """A run that a worker holds, and how much of its output the worker has sent, by stream."""

    task_id: str
    fence: int = 0
    output_end: dict[str, int] = {}


class TypeDefinition(_Message, frozen=True, kw_only=True):
    """A task type of a worker: where its tasks go, and the options that they are enqueued with."""

    name: str
    queue: str = "default"
    options: dict[str, object] = {}
    cron: str = ""
    """When tasks of the type are enqueued; empty: by callers only."""
    timezone: str = "UTC"


class Hello(_Message, frozen=True, kw_only=True, tag="hello"):
    """The first message of a connection. Incarnation 0: a new start."""

    worker_id: str = ""
    incarnation: int = 0
    boot_id: str = ""
    types: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()
    slots: int = 0
    capabilities: tuple[str, ...] = ()
    held: tuple[HeldRunState, ...] = ()
    protocol: str = ""
    definitions_json: str = ""
    """The types with their queue and options, as `TypeDefinition`s. Empty: they are not changed."""


class FailureReport(_Message, frozen=True, kw_only=True):
    """A failed attempt."""

    message: str = ""
    error_type: str = ""
    traceback: str = ""
    kind: str = ""
    final: bool = False


class Subtask(_Message, frozen=True, kw_only=True):
    """A part of a task, for display."""

    id: str = ""
    name: str = ""
    status: str = ""
    done: float = 0.0


class TaskChange(_Message, frozen=True, kw_only=True):
    """A status, or progress. Absent fields do not change."""

    task_id: str
    fence: int = 0
    """0: the fence of the claim that this node holds now."""
    status: str | None = None
    progress: float | None = None
    phase: str | None = None
    iteration: int | None = None
    note: str | None = None
    result_json: str | None = None
    failure: FailureReport | None = None
    delay_ms: int | None = None
    subtasks: tuple[Subtask, ...] = ()
    reason: str | None = None


class OutputChunk(_Message, frozen=True, kw_only=True):
    """Bytes of a stream of a run."""

    task_id: str
    fence: int = 0
    stream: str = "stdout"
    start: int | None = 0
    """The offset of the first byte. None: at the end, which JSON messages may ask for."""
    data: bytes = b""


class DecisionAsk(_Message, frozen=True, kw_only=True):
    """A question to a person. The task pauses until it is answered."""

    key: str = ""
    question: str = ""
    options: tuple[str, ...] = ()
    schema_json: str = ""
    default_json: str | None = None
    deadline_ms: int = 0
    assignees: tuple[str, ...] = ()


class CheckpointChange(_Message, frozen=True, kw_only=True):
    """A saved point of a task."""

    task_id: str
    fence: int = 0
    checkpoint_id: str = ""
    type: str = ""
    note: str = ""
    data_json: str = ""
    decision: DecisionAsk | None = None


class MetricsChange(_Message, frozen=True, kw_only=True):
    """Totals of this attempt, never deltas."""

    task_id: str
    fence: int = 0
    tokens_used: int = 0
    cost: float = 0.0
    duration_ms: int = 0
    other: dict[str, float] = {}


Change: TypeAlias = TaskChange | OutputChunk | CheckpointChange | MetricsChange
"""One report of a running task."""


class Changes(_Message, frozen=True, kw_only=True):
    """What one message reports."""

    task: tuple[TaskChange, ...] = ()
    output: tuple[OutputChunk, ...] = ()
    checkpoint: tuple[CheckpointChange, ...] = ()
    metrics: tuple[MetricsChange, ...] = ()


class SyncMessage(_Message, frozen=True, kw_only=True, tag="sync"):
    """Changes under a sequence number (`WorkerSyncMessage`)."""

    worker_id: str = ""
    sequence: int = 0
    changes: Changes = Changes()
    timestamp: int = 0
    incarnation: int = 0


class Ask(_Message, frozen=True, kw_only=True, tag="ask"):
    """A request for tasks: the next in order, or one by id."""

    slots: int = 0
    lease_ms: int = 0
    claim_id: str = ""
    task_id: str = ""
    wait_ms: int = 0
    withdraw: bool = False
    """Ends the wait of the ask with this claim id: its offer follows at once. It claims nothing."""


class Renew(_Message, frozen=True, kw_only=True, tag="renew"):
    """Renews leases."""

    held: tuple[HeldRunState, ...] = ()
    lease_ms: int = 0
    running: int = 0
    slots: int = 0
    position: str = ""
    blocked_json: str = ""
    """A `core.loop_block.LoopBlock`, while the event loop of the worker is blocked and a thread renews."""


class CommandAck(_Message, frozen=True, kw_only=True, tag="commandAck"):
    """What a runner did with a command: done, refused or unknown_task."""

    id: str = ""
    outcome: str = ""
    detail: str = ""


class Ping(_Message, frozen=True, kw_only=True, tag="ping"):
    n: int = 0


class Goodbye(_Message, frozen=True, kw_only=True, tag="goodbye"):
    reason: str = ""


class CallFrame(_Message, frozen=True, kw_only=True, tag="call"):
    """A request of a running handler that is not a change of its task. `AnswerFrame` has the same `n`."""

    n: int = 0
    verb: str = ""
    task_id: str = ""
    fence: int = 0
    args_json: str = ""


WorkerMessage: TypeAlias = (
    Hello | SyncMessage | Ask | Renew | CommandAck | Ping | Goodbye | CallFrame
)


class LostRun(_Message, frozen=True, kw_only=True, tag="lost"):
    """A run that the worker no longer holds."""

    task_id: str
    fence: int = 0
    reason: str = ""


class Welcome(_Message, frozen=True, kw_only=True, tag="welcome", omit_defaults=False):
    """The answer to `Hello`."""

    applied_through: int = 0
    window_frames: int = WINDOW_FRAMES
    window_bytes: int = WINDOW_BYTES
    heartbeat_ms: int = 0
    position: str = ""
    epoch: str = ""
    gateway: str = ""
    lost: tuple[LostRun, ...] = ()
    incarnation: int = 0
    node: str = ""
    """The name that the worker speaks under."""
    credential: str = ""
    """Given once, to a worker that joined with a join token: it connects with this one from now on."""


class ChangeRefused(_Message, frozen=True, kw_only=True):
    """A change that had no effect, with the state of its task."""

    task_id: str = ""
    code: str = ""
    detail: str = ""
    what: str = ""
    state_json: str = ""
    fence: int = 0
    """The fence that the change named."""
    sequence: int = 0
    """The message of the change."""
    index: int = 0
    """Which of the changes of its kind in the message, from 0."""


class SyncAck(_Message, frozen=True, kw_only=True, tag="ack"):
    """Acknowledges every message up to `sequence`. A message that comes again gets its first answer."""

    accepted: bool
    reason: str = ""
    expected_sequence: int = 0
    sequence: int
    refused: tuple[ChangeRefused, ...] = ()
    output_next: dict[str, int] = {}
    position: str = ""


class ClaimedTask(_Message, frozen=True, kw_only=True):
    """A task that the worker may run."""

    task_id: str
    fence: int = 0
    lease_ms: int = 0
    task_json: str = ""
    checkpoint_json: str = ""
    decisions_json: str = ""
    attempt: int = 0


class Offer(_Message, frozen=True, kw_only=True, tag="offer", omit_defaults=False):
    """The answer to `Ask`. It may be empty."""

    claim_id: str = ""
    tasks: tuple[ClaimedTask, ...] = ()
    notice: str = ""
    """Why the node gets no tasks, e.g. because an operator drains it. Empty: it may get tasks."""


class Renewed(_Message, frozen=True, kw_only=True, tag="renewed", omit_defaults=False):
    """The answer to `Renew`. Lost runs follow as `LostRun`."""

    kept: tuple[HeldRunState, ...] = ()
    lease_ms: int = 0
    position: str = ""


class CommandFrame(_Message, frozen=True, kw_only=True, tag="command"):
    """An operator's command to the runner of a fence."""

    id: str
    kind: str = msgspec.field(name="commandType", default="")
    task_id: str = ""
    fence: int = 0
    reason: str = ""
    args_json: str = ""
    expires_ms: int = 0
    requested_by: str = ""


class Pong(_Message, frozen=True, kw_only=True, tag="pong", omit_defaults=False):
    n: int = 0
    position: str = ""


class ErrorFrame(_Message, frozen=True, kw_only=True, tag="error"):
    """One request was refused. The connection stays."""

    code: str
    detail: str = ""
    retryable: bool = False
    retry_after_ms: int = 0
    claim_id: str = ""
    """The ask that was refused. Empty: another request."""


class DrainFrame(_Message, frozen=True, kw_only=True, tag="drain"):
    """The worker should finish what it has and ask for no more."""

    within_ms: int = 0
    """Not 0: the gateway stops after so long. The worker connects to another one and goes on there."""


class Decided(_Message, frozen=True, kw_only=True, tag="decided"):
    """An answer to a question of a task. It may come more than once."""

    task_id: str
    decision_id: str = ""
    choice_json: str = ""
    """Empty if the decision has expired without an answer."""
    by: str = ""


class AnswerFrame(_Message, frozen=True, kw_only=True, tag="answer"):
    """The answer to a `CallFrame`. `code`: that of the error, or empty."""

    n: int = 0
    value_json: str = ""
    code: str = ""
    detail: str = ""


GatewayMessage: TypeAlias = (
    Welcome
    | SyncAck
    | Offer
    | Renewed
    | CommandFrame
    | LostRun
    | Pong
    | ErrorFrame
    | DrainFrame
    | Decided
    | AnswerFrame
)


def change_count(changes: Changes) -> int:
    """How many changes a message has, of all kinds."""
    return len(changes.task) + len(changes.output) + len(changes.checkpoint) + len(changes.metrics)
