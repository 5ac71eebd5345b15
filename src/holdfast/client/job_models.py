"""The JSON objects of the fleet, as in `models`: jobs, executions, approvals."""

from __future__ import annotations

from typing import Any, TypedDict

import msgspec

from holdfast.client.models import Json, Reason


class JobOptions(TypedDict, total=False):
    """Options of a new job: the fields of the request. Exactly one of `hosts` and `selector` is given."""

    hosts: list[str]
    selector: str
    external_id: str
    project: str
    args: dict[str, Any]
    env: dict[str, str]
    secrets: dict[str, dict[str, Any]]
    rollout: dict[str, Any]
    retry: dict[str, Any]
    idempotent: bool
    on_restart: str
    priority: str | int
    exec_timeout_seconds: float
    not_after_seconds: float
    reason: str
    metadata: dict[str, Any]
    dry_run: bool
    parent_job_id: str


class ExcludedHost(msgspec.Struct, frozen=True, kw_only=True):
    """A host that was selected and will not run the command, as far as it was known at the creation."""

    host: str
    reason: str
    detail: str = ""
    held: bool = False
    """It waits for the end of a block and then runs."""


class PlanRow(msgspec.Struct, frozen=True, kw_only=True):
    """What the plan of a job says about one host."""

    host: str
    host_id: str
    nth: int
    wave: int
    place: int
    """Its place in the order of the rollout, from 0."""
    would_run: bool
    reason: str
    execution_id: str | None = None
    """None in a dry run."""


class JobAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a request for a job."""

    job_id: str
    external_id: str | None
    project: str
    status: str
    approval_state: str
    hosts: int
    excluded: list[ExcludedHost]
    digest: str
    created: bool
    """False: an earlier request made the job, or it is a dry run."""
    url: str
    dry_run: bool = False
    folded: str = ""
    """The targets of a dry run."""
    plan: list[PlanRow] = []
    """The first 1,000 of them."""
    waves: list[int] = []
    """The hosts of each wave."""
    approval: ApprovalView | None = None
    """The request that the job would make. This, and all after `folded`, is of a dry run only."""
    rollout: dict[str, Json] = {}
    budget: dict[str, BudgetView] = {}


class HaltView(msgspec.Struct, frozen=True, kw_only=True):
    """Why no further host starts."""

    mode: str
    reason: str
    actor: str
    cause: str


class JobRow(msgspec.Struct, frozen=True, kw_only=True):
    """A job in a list."""

    id: str
    external_id: str | None
    project: str
    command_type: str
    command: str
    status: str
    approval_state: str
    approval_id: str | None
    created_by: str
    reason: str
    created_at: str | None
    started_at: str | None
    finished_at: str | None
    not_after: str | None
    """When executions that have not started expire."""
    hosts: int
    ended: dict[str, int]
    """Ended executions that the rollout has counted, by status."""
    wave: int
    """The wave that is open, from 1. 0: none was opened."""
    waves_total: int
    halt: HaltView | None
    break_glass: bool
    parent_job_id: str | None
    digest: str
    version: int


class WaveView(msgspec.Struct, frozen=True, kw_only=True):
    """A wave: `pending`, `asked` (it waits for a person), `open` or `closed`."""

    n: int
    size: int
    state: str
    started_at: str | None
    closed_at: str | None
    counts: dict[str, int]
    """Ended hosts by bucket."""


class BudgetView(msgspec.Struct, frozen=True, kw_only=True):
    used: int
    limit: int


class DriftView(msgspec.Struct, frozen=True, kw_only=True):
    """How the hosts that the job would select now differ from its targets. The lists are cut."""

    new: list[str]
    gone: list[str]
    changed: list[str]
    new_count: int
    gone_count: int
    changed_count: int


class VoteView(msgspec.Struct, frozen=True, kw_only=True):
    voter: str
    verdict: str
    reason: str
    at: str | None
    withdrawn_at: str | None


class ApprovalRow(msgspec.Struct, frozen=True, kw_only=True):
    """A request for an approval."""

    id: str
    job_id: str
    project: str
    state: str
    """`pending`, `approved`, `rejected`, `expired` or `void`."""
    digest: str
    rule: str
    requested_by: str
    excluded: list[str]
    """Who may not vote."""
    eligible: list[str]
    """Whose votes count: `role:NAME`, `user:NAME`, `group:NAME`."""
    need: dict[str, int]
    """Votes that each group of the rule needs."""
    created_at: str | None
    expires_at: str | None
    remaining_seconds: float | None
    version: int


class ApprovalView(ApprovalRow, frozen=True, kw_only=True):
    """A request for an approval with its votes."""

    have: dict[str, int]
    denied: int
    votes: list[VoteView]


class OpenApproval(ApprovalRow, frozen=True, kw_only=True):
    """A request for an approval with what it is about, for a list of what waits."""

    job: JobRow


class BreakGlassView(msgspec.Struct, frozen=True, kw_only=True):
    """How a job skipped its approval."""

    actor: str
    reason: str
    ticket: str
    at: str | None
    reviewed_by: str | None
    reviewed_at: str | None
    note: str


class JobView(JobRow, frozen=True, kw_only=True):
    """A job with its counts."""

    selector: str | None
    args: dict[str, Json]
    env: dict[str, str]
    secrets: dict[str, Json]
    """Variables and the secrets that they have, by name and version."""
    rollout: dict[str, Json]
    """The policy as it counts now."""
    exec_timeout_seconds: float
    retry: dict[str, Json]
    idempotent: bool
    on_restart: str
    priority: str
    metadata: dict[str, Json]
    counts: dict[str, int]
    """Executions by status."""
    kinds: dict[str, int]
    """Executions by fine kind."""
    waves: list[WaveView]
    budget: dict[str, BudgetView]
    eta_seconds: float | None
    excluded: list[ExcludedHost]
    folded: str
    """The names of its hosts, folded. Empty: a selector has chosen them, or there are more than 1,000."""
    approval: ApprovalView | None
    glass: BreakGlassView | None
    drift: DriftView | None
    """Null unless it was asked for: it reads all hosts."""
    corrected: int = 0
    """Late results that were taken over after they were counted. The status of an ended job stays."""


class ApprovalAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a vote."""

    job_id: str
    status: str
    approval_state: str
    approval: ApprovalView | None
    repeated: bool
    """The act had been done before."""
    version: int


class JobChanged(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to an order."""

    job: JobRow
    repeated: bool
    """It was so already."""


class StreamView(msgspec.Struct, frozen=True, kw_only=True):
    """A stream of an ended execution."""

    bytes: int
    kept: int
    sha256: str | None
    complete: bool


class ExecutionView(msgspec.Struct, frozen=True, kw_only=True):
    """One host of a job. Its id is that of its task."""

    id: str
    job_id: str
    host: str
    host_id: str
    nth: int
    wave: int | None
    status: str
    kind: str
    reason: str
    task_status: str
    attempt: int
    max_attempts: int
    token: int | None
    exit_code: int | None
    signal: int | None
    queued_at: str | None
    started_at: str | None
    """When the host got its go."""
    finished_at: str | None
    duration_seconds: float | None
    output: dict[str, StreamView]
    late: Json
    """A result that came after the execution had ended otherwise."""
    break_glass: bool
    parent_job_id: str | None
    version: int


class ExecutionWhy(msgspec.Struct, frozen=True, kw_only=True):
    """Why an execution is where it is. The first reason counts now."""

    execution_id: str
    job_id: str
    host: str
    status: str
    kind: str
    reasons: list[Reason]


class OutputGroupView(msgspec.Struct, frozen=True, kw_only=True):
    """Hosts with equal output."""

    sha256: str
    count: int
    hosts: str
    """Their names, folded."""
    first: str
    bytes: int
    sample: str
    """The start of the output."""


class FoldedOutput(msgspec.Struct, frozen=True, kw_only=True):
    """The outputs of a job, with equal ones once."""

    stream: str
    groups: list[OutputGroupView]
    more_groups: int
    missing: str
    """The hosts without output, folded."""
    missing_count: int
    differing: int
    """Hosts that are not in the largest group."""


class JobMatrix(msgspec.Struct, frozen=True, kw_only=True):
    """Where each host of a job stands, in the order of its targets."""

    job_id: str
    version: int
    kinds: dict[str, str]
    """What each letter means: a fine kind."""
    cells: str
    """One letter for each host."""
    hosts: list[str]
    """Their names, waves and labels, if they were asked for."""
    waves: list[int]
    labels: dict[str, list[str]]
    """The values of each host of those labels that tell the hosts apart."""
