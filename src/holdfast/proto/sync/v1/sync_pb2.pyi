from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class WorkerMessage(_message.Message):
    __slots__ = ("hello", "sync", "ask", "renew", "command_ack", "ping", "goodbye", "call")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    SYNC_FIELD_NUMBER: _ClassVar[int]
    ASK_FIELD_NUMBER: _ClassVar[int]
    RENEW_FIELD_NUMBER: _ClassVar[int]
    COMMAND_ACK_FIELD_NUMBER: _ClassVar[int]
    PING_FIELD_NUMBER: _ClassVar[int]
    GOODBYE_FIELD_NUMBER: _ClassVar[int]
    CALL_FIELD_NUMBER: _ClassVar[int]
    hello: Hello
    sync: WorkerSyncMessage
    ask: Ask
    renew: Renew
    command_ack: CommandAck
    ping: Ping
    goodbye: Goodbye
    call: Call
    def __init__(self, hello: _Optional[_Union[Hello, _Mapping]] = ..., sync: _Optional[_Union[WorkerSyncMessage, _Mapping]] = ..., ask: _Optional[_Union[Ask, _Mapping]] = ..., renew: _Optional[_Union[Renew, _Mapping]] = ..., command_ack: _Optional[_Union[CommandAck, _Mapping]] = ..., ping: _Optional[_Union[Ping, _Mapping]] = ..., goodbye: _Optional[_Union[Goodbye, _Mapping]] = ..., call: _Optional[_Union[Call, _Mapping]] = ...) -> None: ...

class GatewayMessage(_message.Message):
    __slots__ = ("welcome", "ack", "offer", "renewed", "command", "lost", "pong", "error", "drain", "decided", "answer")
    WELCOME_FIELD_NUMBER: _ClassVar[int]
    ACK_FIELD_NUMBER: _ClassVar[int]
    OFFER_FIELD_NUMBER: _ClassVar[int]
    RENEWED_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    PONG_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    DRAIN_FIELD_NUMBER: _ClassVar[int]
    DECIDED_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    welcome: Welcome
    ack: SyncAck
    offer: Offer
    renewed: Renewed
    command: Command
    lost: Lost
    pong: Pong
    error: Error
    drain: Drain
    decided: Decided
    answer: Answer
    def __init__(self, welcome: _Optional[_Union[Welcome, _Mapping]] = ..., ack: _Optional[_Union[SyncAck, _Mapping]] = ..., offer: _Optional[_Union[Offer, _Mapping]] = ..., renewed: _Optional[_Union[Renewed, _Mapping]] = ..., command: _Optional[_Union[Command, _Mapping]] = ..., lost: _Optional[_Union[Lost, _Mapping]] = ..., pong: _Optional[_Union[Pong, _Mapping]] = ..., error: _Optional[_Union[Error, _Mapping]] = ..., drain: _Optional[_Union[Drain, _Mapping]] = ..., decided: _Optional[_Union[Decided, _Mapping]] = ..., answer: _Optional[_Union[Answer, _Mapping]] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("worker_id", "incarnation", "boot_id", "types", "queues", "slots", "capabilities", "held", "protocol", "definitions_json")
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    BOOT_ID_FIELD_NUMBER: _ClassVar[int]
    TYPES_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    CAPABILITIES_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    DEFINITIONS_JSON_FIELD_NUMBER: _ClassVar[int]
    worker_id: str
    incarnation: int
    boot_id: str
    types: _containers.RepeatedScalarFieldContainer[str]
    queues: _containers.RepeatedScalarFieldContainer[str]
    slots: int
    capabilities: _containers.RepeatedScalarFieldContainer[str]
    held: _containers.RepeatedCompositeFieldContainer[Held]
    protocol: str
    definitions_json: str
    def __init__(self, worker_id: _Optional[str] = ..., incarnation: _Optional[int] = ..., boot_id: _Optional[str] = ..., types: _Optional[_Iterable[str]] = ..., queues: _Optional[_Iterable[str]] = ..., slots: _Optional[int] = ..., capabilities: _Optional[_Iterable[str]] = ..., held: _Optional[_Iterable[_Union[Held, _Mapping]]] = ..., protocol: _Optional[str] = ..., definitions_json: _Optional[str] = ...) -> None: ...

class Held(_message.Message):
    __slots__ = ("task_id", "fence", "output_end")
    class OutputEndEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_END_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    fence: int
    output_end: _containers.ScalarMap[str, int]
    def __init__(self, task_id: _Optional[str] = ..., fence: _Optional[int] = ..., output_end: _Optional[_Mapping[str, int]] = ...) -> None: ...

class Welcome(_message.Message):
    __slots__ = ("applied_through", "window_frames", "window_bytes", "heartbeat_ms", "position", "epoch", "gateway", "lost", "incarnation", "node", "credential")
    APPLIED_THROUGH_FIELD_NUMBER: _ClassVar[int]
    WINDOW_FRAMES_FIELD_NUMBER: _ClassVar[int]
    WINDOW_BYTES_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_MS_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    GATEWAY_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    CREDENTIAL_FIELD_NUMBER: _ClassVar[int]
    applied_through: int
    window_frames: int
    window_bytes: int
    heartbeat_ms: int
    position: str
    epoch: str
    gateway: str
    lost: _containers.RepeatedCompositeFieldContainer[Lost]
    incarnation: int
    node: str
    credential: str
    def __init__(self, applied_through: _Optional[int] = ..., window_frames: _Optional[int] = ..., window_bytes: _Optional[int] = ..., heartbeat_ms: _Optional[int] = ..., position: _Optional[str] = ..., epoch: _Optional[str] = ..., gateway: _Optional[str] = ..., lost: _Optional[_Iterable[_Union[Lost, _Mapping]]] = ..., incarnation: _Optional[int] = ..., node: _Optional[str] = ..., credential: _Optional[str] = ...) -> None: ...

class WorkerSyncMessage(_message.Message):
    __slots__ = ("worker_id", "sequence", "changes", "timestamp", "incarnation")
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    worker_id: str
    sequence: int
    changes: Changes
    timestamp: int
    incarnation: int
    def __init__(self, worker_id: _Optional[str] = ..., sequence: _Optional[int] = ..., changes: _Optional[_Union[Changes, _Mapping]] = ..., timestamp: _Optional[int] = ..., incarnation: _Optional[int] = ...) -> None: ...

class Changes(_message.Message):
    __slots__ = ("task", "output", "checkpoint", "metrics")
    TASK_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    METRICS_FIELD_NUMBER: _ClassVar[int]
    task: _containers.RepeatedCompositeFieldContainer[TaskChange]
    output: _containers.RepeatedCompositeFieldContainer[OutputChunk]
    checkpoint: _containers.RepeatedCompositeFieldContainer[CheckpointChange]
    metrics: _containers.RepeatedCompositeFieldContainer[MetricsChange]
    def __init__(self, task: _Optional[_Iterable[_Union[TaskChange, _Mapping]]] = ..., output: _Optional[_Iterable[_Union[OutputChunk, _Mapping]]] = ..., checkpoint: _Optional[_Iterable[_Union[CheckpointChange, _Mapping]]] = ..., metrics: _Optional[_Iterable[_Union[MetricsChange, _Mapping]]] = ...) -> None: ...

class TaskChange(_message.Message):
    __slots__ = ("task_id", "fence", "status", "progress", "phase", "iteration", "note", "result_json", "failure", "delay_ms", "subtasks", "reason")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    ITERATION_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    RESULT_JSON_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    DELAY_MS_FIELD_NUMBER: _ClassVar[int]
    SUBTASKS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    fence: int
    status: str
    progress: float
    phase: str
    iteration: int
    note: str
    result_json: str
    failure: Failure
    delay_ms: int
    subtasks: _containers.RepeatedCompositeFieldContainer[Subtask]
    reason: str
    def __init__(self, task_id: _Optional[str] = ..., fence: _Optional[int] = ..., status: _Optional[str] = ..., progress: _Optional[float] = ..., phase: _Optional[str] = ..., iteration: _Optional[int] = ..., note: _Optional[str] = ..., result_json: _Optional[str] = ..., failure: _Optional[_Union[Failure, _Mapping]] = ..., delay_ms: _Optional[int] = ..., subtasks: _Optional[_Iterable[_Union[Subtask, _Mapping]]] = ..., reason: _Optional[str] = ...) -> None: ...

class Failure(_message.Message):
    __slots__ = ("message", "error_type", "traceback", "kind", "final")
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    ERROR_TYPE_FIELD_NUMBER: _ClassVar[int]
    TRACEBACK_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    FINAL_FIELD_NUMBER: _ClassVar[int]
    message: str
    error_type: str
    traceback: str
    kind: str
    final: bool
    def __init__(self, message: _Optional[str] = ..., error_type: _Optional[str] = ..., traceback: _Optional[str] = ..., kind: _Optional[str] = ..., final: bool = ...) -> None: ...

class Subtask(_message.Message):
    __slots__ = ("id", "name", "status", "done")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    status: str
    done: float
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., status: _Optional[str] = ..., done: _Optional[float] = ...) -> None: ...

class OutputChunk(_message.Message):
    __slots__ = ("task_id", "fence", "stream", "start", "data")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    fence: int
    stream: str
    start: int
    data: bytes
    def __init__(self, task_id: _Optional[str] = ..., fence: _Optional[int] = ..., stream: _Optional[str] = ..., start: _Optional[int] = ..., data: _Optional[bytes] = ...) -> None: ...

class CheckpointChange(_message.Message):
    __slots__ = ("task_id", "fence", "checkpoint_id", "type", "note", "data_json", "decision")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_ID_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    DATA_JSON_FIELD_NUMBER: _ClassVar[int]
    DECISION_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    fence: int
    checkpoint_id: str
    type: str
    note: str
    data_json: str
    decision: DecisionAsk
    def __init__(self, task_id: _Optional[str] = ..., fence: _Optional[int] = ..., checkpoint_id: _Optional[str] = ..., type: _Optional[str] = ..., note: _Optional[str] = ..., data_json: _Optional[str] = ..., decision: _Optional[_Union[DecisionAsk, _Mapping]] = ...) -> None: ...

class DecisionAsk(_message.Message):
    __slots__ = ("key", "question", "options", "schema_json", "default_json", "deadline_ms", "assignees")
    KEY_FIELD_NUMBER: _ClassVar[int]
    QUESTION_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_JSON_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_JSON_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_MS_FIELD_NUMBER: _ClassVar[int]
    ASSIGNEES_FIELD_NUMBER: _ClassVar[int]
    key: str
    question: str
    options: _containers.RepeatedScalarFieldContainer[str]
    schema_json: str
    default_json: str
    deadline_ms: int
    assignees: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, key: _Optional[str] = ..., question: _Optional[str] = ..., options: _Optional[_Iterable[str]] = ..., schema_json: _Optional[str] = ..., default_json: _Optional[str] = ..., deadline_ms: _Optional[int] = ..., assignees: _Optional[_Iterable[str]] = ...) -> None: ...

class MetricsChange(_message.Message):
    __slots__ = ("task_id", "fence", "tokens_used", "cost", "duration_ms", "other")
    class OtherEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    TOKENS_USED_FIELD_NUMBER: _ClassVar[int]
    COST_FIELD_NUMBER: _ClassVar[int]
    DURATION_MS_FIELD_NUMBER: _ClassVar[int]
    OTHER_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    fence: int
    tokens_used: int
    cost: float
    duration_ms: int
    other: _containers.ScalarMap[str, float]
    def __init__(self, task_id: _Optional[str] = ..., fence: _Optional[int] = ..., tokens_used: _Optional[int] = ..., cost: _Optional[float] = ..., duration_ms: _Optional[int] = ..., other: _Optional[_Mapping[str, float]] = ...) -> None: ...

class SyncAck(_message.Message):
    __slots__ = ("accepted", "reason", "expected_sequence", "sequence", "refused", "output_next", "position")
    class OutputNextEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_NEXT_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    accepted: bool
    reason: str
    expected_sequence: int
    sequence: int
    refused: _containers.RepeatedCompositeFieldContainer[ChangeRefused]
    output_next: _containers.ScalarMap[str, int]
    position: str
    def __init__(self, accepted: bool = ..., reason: _Optional[str] = ..., expected_sequence: _Optional[int] = ..., sequence: _Optional[int] = ..., refused: _Optional[_Iterable[_Union[ChangeRefused, _Mapping]]] = ..., output_next: _Optional[_Mapping[str, int]] = ..., position: _Optional[str] = ...) -> None: ...

class ChangeRefused(_message.Message):
    __slots__ = ("task_id", "code", "detail", "what", "state_json", "fence", "sequence", "index")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    WHAT_FIELD_NUMBER: _ClassVar[int]
    STATE_JSON_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    code: str
    detail: str
    what: str
    state_json: str
    fence: int
    sequence: int
    index: int
    def __init__(self, task_id: _Optional[str] = ..., code: _Optional[str] = ..., detail: _Optional[str] = ..., what: _Optional[str] = ..., state_json: _Optional[str] = ..., fence: _Optional[int] = ..., sequence: _Optional[int] = ..., index: _Optional[int] = ...) -> None: ...

class Ask(_message.Message):
    __slots__ = ("slots", "lease_ms", "claim_id", "task_id", "wait_ms", "withdraw")
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    LEASE_MS_FIELD_NUMBER: _ClassVar[int]
    CLAIM_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    WITHDRAW_FIELD_NUMBER: _ClassVar[int]
    slots: int
    lease_ms: int
    claim_id: str
    task_id: str
    wait_ms: int
    withdraw: bool
    def __init__(self, slots: _Optional[int] = ..., lease_ms: _Optional[int] = ..., claim_id: _Optional[str] = ..., task_id: _Optional[str] = ..., wait_ms: _Optional[int] = ..., withdraw: bool = ...) -> None: ...

class Offer(_message.Message):
    __slots__ = ("claim_id", "tasks", "notice")
    CLAIM_ID_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    NOTICE_FIELD_NUMBER: _ClassVar[int]
    claim_id: str
    tasks: _containers.RepeatedCompositeFieldContainer[Claimed]
    notice: str
    def __init__(self, claim_id: _Optional[str] = ..., tasks: _Optional[_Iterable[_Union[Claimed, _Mapping]]] = ..., notice: _Optional[str] = ...) -> None: ...

class Claimed(_message.Message):
    __slots__ = ("task_id", "fence", "lease_ms", "task_json", "checkpoint_json", "decisions_json", "attempt")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    LEASE_MS_FIELD_NUMBER: _ClassVar[int]
    TASK_JSON_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_JSON_FIELD_NUMBER: _ClassVar[int]
    DECISIONS_JSON_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    fence: int
    lease_ms: int
    task_json: str
    checkpoint_json: str
    decisions_json: str
    attempt: int
    def __init__(self, task_id: _Optional[str] = ..., fence: _Optional[int] = ..., lease_ms: _Optional[int] = ..., task_json: _Optional[str] = ..., checkpoint_json: _Optional[str] = ..., decisions_json: _Optional[str] = ..., attempt: _Optional[int] = ...) -> None: ...

class Renew(_message.Message):
    __slots__ = ("held", "lease_ms", "running", "slots", "position", "blocked_json")
    HELD_FIELD_NUMBER: _ClassVar[int]
    LEASE_MS_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    BLOCKED_JSON_FIELD_NUMBER: _ClassVar[int]
    held: _containers.RepeatedCompositeFieldContainer[Held]
    lease_ms: int
    running: int
    slots: int
    position: str
    blocked_json: str
    def __init__(self, held: _Optional[_Iterable[_Union[Held, _Mapping]]] = ..., lease_ms: _Optional[int] = ..., running: _Optional[int] = ..., slots: _Optional[int] = ..., position: _Optional[str] = ..., blocked_json: _Optional[str] = ...) -> None: ...

class Renewed(_message.Message):
    __slots__ = ("kept", "lease_ms", "position")
    KEPT_FIELD_NUMBER: _ClassVar[int]
    LEASE_MS_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    kept: _containers.RepeatedCompositeFieldContainer[Held]
    lease_ms: int
    position: str
    def __init__(self, kept: _Optional[_Iterable[_Union[Held, _Mapping]]] = ..., lease_ms: _Optional[int] = ..., position: _Optional[str] = ...) -> None: ...

class Lost(_message.Message):
    __slots__ = ("task_id", "fence", "reason")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    fence: int
    reason: str
    def __init__(self, task_id: _Optional[str] = ..., fence: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...

class Command(_message.Message):
    __slots__ = ("id", "type", "task_id", "fence", "reason", "args_json", "expires_ms", "requested_by")
    ID_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    ARGS_JSON_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_MS_FIELD_NUMBER: _ClassVar[int]
    REQUESTED_BY_FIELD_NUMBER: _ClassVar[int]
    id: str
    type: str
    task_id: str
    fence: int
    reason: str
    args_json: str
    expires_ms: int
    requested_by: str
    def __init__(self, id: _Optional[str] = ..., type: _Optional[str] = ..., task_id: _Optional[str] = ..., fence: _Optional[int] = ..., reason: _Optional[str] = ..., args_json: _Optional[str] = ..., expires_ms: _Optional[int] = ..., requested_by: _Optional[str] = ...) -> None: ...

class CommandAck(_message.Message):
    __slots__ = ("id", "outcome", "detail")
    ID_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    id: str
    outcome: str
    detail: str
    def __init__(self, id: _Optional[str] = ..., outcome: _Optional[str] = ..., detail: _Optional[str] = ...) -> None: ...

class Decided(_message.Message):
    __slots__ = ("task_id", "decision_id", "choice_json", "by")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    DECISION_ID_FIELD_NUMBER: _ClassVar[int]
    CHOICE_JSON_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    decision_id: str
    choice_json: str
    by: str
    def __init__(self, task_id: _Optional[str] = ..., decision_id: _Optional[str] = ..., choice_json: _Optional[str] = ..., by: _Optional[str] = ...) -> None: ...

class Ping(_message.Message):
    __slots__ = ("n",)
    N_FIELD_NUMBER: _ClassVar[int]
    n: int
    def __init__(self, n: _Optional[int] = ...) -> None: ...

class Pong(_message.Message):
    __slots__ = ("n", "position")
    N_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    n: int
    position: str
    def __init__(self, n: _Optional[int] = ..., position: _Optional[str] = ...) -> None: ...

class Goodbye(_message.Message):
    __slots__ = ("reason",)
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: str
    def __init__(self, reason: _Optional[str] = ...) -> None: ...

class Drain(_message.Message):
    __slots__ = ("within_ms",)
    WITHIN_MS_FIELD_NUMBER: _ClassVar[int]
    within_ms: int
    def __init__(self, within_ms: _Optional[int] = ...) -> None: ...

class Error(_message.Message):
    __slots__ = ("code", "detail", "retryable", "retry_after_ms", "claim_id")
    CODE_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    RETRYABLE_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_MS_FIELD_NUMBER: _ClassVar[int]
    CLAIM_ID_FIELD_NUMBER: _ClassVar[int]
    code: str
    detail: str
    retryable: bool
    retry_after_ms: int
    claim_id: str
    def __init__(self, code: _Optional[str] = ..., detail: _Optional[str] = ..., retryable: bool = ..., retry_after_ms: _Optional[int] = ..., claim_id: _Optional[str] = ...) -> None: ...

class Call(_message.Message):
    __slots__ = ("n", "verb", "task_id", "fence", "args_json")
    N_FIELD_NUMBER: _ClassVar[int]
    VERB_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    ARGS_JSON_FIELD_NUMBER: _ClassVar[int]
    n: int
    verb: str
    task_id: str
    fence: int
    args_json: str
    def __init__(self, n: _Optional[int] = ..., verb: _Optional[str] = ..., task_id: _Optional[str] = ..., fence: _Optional[int] = ..., args_json: _Optional[str] = ...) -> None: ...

class Answer(_message.Message):
    __slots__ = ("n", "value_json", "code", "detail")
    N_FIELD_NUMBER: _ClassVar[int]
    VALUE_JSON_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    n: int
    value_json: str
    code: str
    detail: str
    def __init__(self, n: _Optional[int] = ..., value_json: _Optional[str] = ..., code: _Optional[str] = ..., detail: _Optional[str] = ...) -> None: ...
