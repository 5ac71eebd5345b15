"""What the fleet stores: one struct for each row. Times are epoch seconds of the store's clock.

Promises: the fields are those of the tables. The status of an execution is not here: it is that of its task,
and `status.py` says how both are shown. Never: I/O.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from holdfast.core import codec
from holdfast.core.task import EXECUTION_TYPE

HOST_PREFIX: Final = "hst_"
JOB_PREFIX: Final = "job_"
BLOCK_PREFIX: Final = "blk_"
APPROVAL_PREFIX: Final = "apr_"
WEBHOOK_PREFIX: Final = "whk_"
FLEET_TYPE: Final = EXECUTION_TYPE
"""The type of the tasks that are executions. No worker has a handler of it."""
FLEET_QUEUE: Final = "fleet"
OUTAGE_SECONDS: Final = 15.0
"""If the store did not hear for longer than this that agents are served, there was an outage."""
SLOT: Final = "host:"
"""The prefix of the lease whose holder is the one execution that may run on a host."""
AFTER_SLOTS: Final = "host;"
"""Behind all texts with this prefix."""


def job_id_at(seconds: float) -> str:
    """What ids of jobs that are made from this time on are not below: they begin with milliseconds."""
    return f"{JOB_PREFIX}{max(0, int(seconds * 1000)):012x}"


class HostDriver(StrEnum):
    """How commands reach a host."""

    AGENT = "agent"
    SSH = "ssh"
    SIMULATED = "simulated"


class HostState(StrEnum):
    """Whether a host gets executions."""

    ACTIVE = "active"
    CORDONED = "cordoned"
    """It keeps what runs and gets nothing new."""
    GONE = "gone"
    """It was removed. A host that is added again under the name gets the row back."""


UNREAD: Final = ""
"""Stands for facts that were not read."""


class Host(msgspec.Struct, frozen=True, kw_only=True):
    """A machine of the fleet. Its agent is the node with the host's id."""

    id: str
    project: str
    name: str
    driver: HostDriver
    address: str = ""
    labels_json: str = "{}"
    facts_json: str = "{}"
    """`UNREAD` in a list that was read without facts, which may be large."""
    state: HostState = HostState.ACTIVE
    created_at: float
    updated_at: float
    version: int = 1
    unreachable_at: float | None = None
    """When the server could not reach a host that it drives. None: it could, or has not tried."""
    returned_at: float | None = None
    """When it was added again after it had been removed. None: it never was."""

    def is_gone_since(self, at: float) -> bool:
        """Whether the machine that had the name at this time was removed since. Another one may have it."""
        returned = self.returned_at is not None and self.returned_at > at
        return returned or self.state is HostState.GONE

    @property
    def labels(self) -> dict[str, str]:
        return codec.loads_object(self.labels_json)

    @property
    def facts(self) -> dict[str, codec.Json]:
        """Fails if they were not read: a rule about facts must not take a host for one without them."""
        if self.facts_json == UNREAD:
            raise RuntimeError(
                f"the facts of host {self.name} were not read, and a rule asks for them"
            )
        return codec.loads_object(self.facts_json)


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """A named selector."""

    project: str
    name: str
    selector: str
    created_at: float
    version: int = 1


class BlockEffect(StrEnum):
    """What a block does to an execution that has not started."""

    REFUSE = "refuse"
    HOLD = "hold"


class OnRunning(StrEnum):
    """What a new block does to an execution that runs."""

    FINISH = "finish"
    PAUSE = "pause"
    ABORT = "abort"


class OnLift(StrEnum):
    """What happens to held executions when the block ends."""

    REQUEUE = "requeue"
    DROP = "drop"
    REAPPROVE = "reapprove"


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """Keeps commands of some types off some hosts."""

    id: str
    project: str
    host_id: str | None = None
    """One host. None: the hosts that `selector` matches."""
    selector: str | None = None
    command_type: str
    """A glob over names of command types."""
    reason: str
    owner: str
    effect: BlockEffect = BlockEffect.REFUSE
    on_running: OnRunning = OnRunning.FINISH
    on_lift: OnLift = OnLift.REQUEUE
    window_json: str | None = None
    """`{rrule, duration_seconds, timezone}`: the block counts only within the windows."""
    expires_at: float | None = None
    lifted_at: float | None = None
    lifted_by: str = ""
    created_at: float
    version: int = 1


class ApprovalState(StrEnum):
    """Whether a job may start, as far as people decide it."""

    NOT_REQUIRED = "NOT_REQUIRED"
    WAIT_APPROVAL = "WAIT_APPROVAL"
    APPROVED = "APPROVED"
    REJECTED = "REJECTED"
    EXPIRED = "EXPIRED"
    VOID = "VOID"


class JobStatus(StrEnum):
    """The status of a job."""

    NEW = "NEW"
    WAIT_APPROVAL = "WAIT_APPROVAL"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    HALTING = "HALTING"
    SUCCESS = "SUCCESS"
    PARTIAL = "PARTIAL"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    REJECTED = "REJECTED"
    EXPIRED = "EXPIRED"


JOB_ENDED: Final = frozenset(
    {
        JobStatus.SUCCESS,
        JobStatus.PARTIAL,
        JobStatus.FAILED,
        JobStatus.CANCELLED,
        JobStatus.REJECTED,
        JobStatus.EXPIRED,
    }
)


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One command for many hosts."""

    id: str
    project: str
    external_id: str | None
    request_hash: str
    spec_json: str
    """The checked request (`job_spec.JobSpec`). The pinned targets are the hosts of the executions."""
    excluded_json: str = "[]"
    """Hosts that were selected and are not targets: `[{host, reason, detail}]`."""
    digest: str
    approval_state: ApprovalState
    approval_id: str | None = None
    status: JobStatus = JobStatus.NEW
    halt_json: str | None = None
    """`{mode, reason, actor}` of a halted or paused job."""
    rollout_json: str | None = None
    """The state of the reducer (`rollout.RolloutState`)."""
    counts_json: str = "{}"
    """Ended executions by fine kind."""
    hosts: int
    """How many targets there are."""
    created_by: str
    reason: str = ""
    parent_id: str | None = None
    break_glass_json: str | None = None
    """`{actor, reason, ticket, reviewed_by}` of a job that skipped its approval."""
    created_at: float
    started_at: float | None = None
    finished_at: float | None = None
    not_after: float
    """When executions that have not started expire."""
    due_at: float | None = None
    """When the rollout looks at the job without an event. None: it waits for one."""
    version: int = 1
    excluded_voters_json: str = "[]"
    """Who may not vote on the job, whichever request asks: its requester, those who hold the requester's
    token, and everyone who has edited it."""
    editors_json: str = "[]"
    """Who has edited the job."""


class Execution(msgspec.Struct, frozen=True, kw_only=True):
    """What the fleet knows of an execution beside its task."""

    task_id: str
    job_id: str
    nth: int
    """The place of its host in the targets of the job."""
    host_id: str
    host: str
    """The name of the host when the job was made."""
    wave: int | None = None
    """The wave that admitted it, from 1. None: not admitted yet."""
    block_id: str | None = None
    """The block that holds it: its task is held by `block:<id>` until the block ends."""
    token: int | None = None
    """The fence of the slot under which it was last offered."""
    fence: int | None = None
    """The fence of its task under that token: the name of its output."""
    taken_json: str = "[]"
    """The tokens whose end the agent has reported, oldest first. A repeat of a report is recognised by it."""
    outcome: str | None = None
    """The fine kind of an ended execution (`status.Kind`), where the task alone does not tell it."""
    detail: str = ""
    """Why, in one line."""
    exit_code: int | None = None
    signal: int | None = None
    output_json: str | None = None
    """`{stream: {bytes, kept, sha256, complete}}` at the end."""
    late_json: str | None = None
    """A result that came after the execution had ended otherwise."""
    go_at: float | None = None
    """When its agent got the go under `token`. None: it has not, so nothing has started."""
    ended_at: float | None = None
    tallied: bool = False
    """Whether the rollout has counted its end."""
    away: bool = False
    """Whether it has left the window of the rollout, because its host could not run it. It is not offered
    until the rollout lets it return."""


class ApprovalRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The question whether a job may start, and where it stands."""

    id: str
    project: str
    job_id: str
    digest: str
    rule_json: str
    state: str = "pending"
    """`pending`, `approved`, `rejected`, `expired` or `void`."""
    requested_by: str
    excluded_json: str = "[]"
    """Principals that may not vote."""
    created_at: float
    expires_at: float
    ended_at: float | None = None
    version: int = 1


class Vote(msgspec.Struct, frozen=True, kw_only=True):
    """The vote of one person."""

    approval_id: str
    voter: str
    verdict: str
    """`approve` or `reject`."""
    reason: str
    digest: str
    roles_json: str = "[]"
    """The roles that the voter had."""
    at: float
    withdrawn_at: float | None = None


class Agent(msgspec.Struct, frozen=True, kw_only=True):
    """What the server knows of the agent of a host, beside its node."""

    host_id: str
    project: str
    journal_id: str
    """Names the journal on the host. Another journal proves nothing about earlier tokens."""
    journal_token: int = 0
    """The newest token when the journal was first seen: it proves nothing about this one and older ones."""
    boot_id: str
    """Names the boot of the host. No process outlives it."""
    boot_token: int = 0
    """The newest token when the boot was first seen."""
    version: str = ""
    incarnation: int = 0
    seq: int = 0
    """The newest sync of the incarnation."""
    block_epoch: int = 0
    capabilities_json: str = "{}"
    seen_at: float
    enrolled_at: float
    is_closed: bool = False  # its newest sync said that it takes nothing


class WebhookDirection(StrEnum):
    """Whether requests come from a source, or events go to an endpoint."""

    IN = "in"
    OUT = "out"


class WebhookState(StrEnum):
    ACTIVE = "active"
    DISABLED = "disabled"
    """Its requests are refused; it gets no events."""


class Webhook(msgspec.Struct, frozen=True, kw_only=True):
    """A source of signed requests, or an endpoint that gets events."""

    id: str
    project: str
    direction: WebhookDirection
    name: str
    url: str = ""
    """Where an endpoint gets its events. Empty for a source."""
    kinds_json: str = "[]"
    """The kinds of events that an endpoint gets; `job.*` stands for all kinds of a group."""
    secrets_json: str
    """The newest secret first; two while one replaces the other."""
    state: WebhookState = WebhookState.ACTIVE
    position: str | None = None
    """The position of the feed that deliveries have been made up to."""
    created_by: str
    created_at: float
    version: int = 1

    @property
    def kinds(self) -> list[str]:
        return msgspec.json.decode(self.kinds_json, type=list[str])

    @property
    def secrets(self) -> list[str]:
        return msgspec.json.decode(self.secrets_json, type=list[str])


class OutboxKind(StrEnum):
    """What an entry of the outbox announces."""

    PLAN_JOB = "PLAN_JOB"
    RUN_EXECUTION = "RUN_EXECUTION"
    WEBHOOK = "WEBHOOK"


class OutboxEntry(msgspec.Struct, frozen=True, kw_only=True):
    """Something to do after a commit, written by the transaction that makes it due."""

    id: int
    kind: OutboxKind
    subject: str
    payload_json: str
    created_at: float
    due_at: float
    claimed_by: str | None = None
    claim_until: float | None = None
    attempts: int = 0
    error: str = ""
    """How the last attempt failed."""
    done_at: float | None = None
