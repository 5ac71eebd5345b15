"""What the rules of the agent protocol judge by, and what they decide, as plain data.

Promises: a run is an execution under a token, and its claim names both. Never: I/O, clocks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from holdfast.core import codec
from holdfast.core.event import NewEvent
from holdfast.core.fleet.agents.wire import (
    AgentCommand,
    AgentResult,
    AgentSync,
    AgentWithdrawal,
    TokenRef,
)
from holdfast.core.fleet.commands.secrets import SecretRef
from holdfast.core.fleet.model import Agent, Execution, HostState, Job
from holdfast.core.lease import LeaseRow
from holdfast.core.node_identity import NodeState
from holdfast.core.start_once import RunPhase
from holdfast.core.task import LEASED, RunId, Task
from holdfast.core.transition import Ruling

TAKEN_MAX: Final = 20
"""Tokens of an execution whose end is remembered. An execution has as many as it was offered."""


class RunCommand(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent has to run for a job."""

    command_type: str
    kind: str
    project: str = ""
    argv: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    secrets: Mapping[str, SecretRef] = {}
    """Variables whose values are looked up with each offer, and removed from output."""
    run_as: str | None = None
    exec_timeout_seconds: float = 60.0
    grace_seconds: float = 10.0
    on_restart: str = "report_unknown"
    probe_argv: tuple[str, ...] = ()
    output_bytes: int = 1_048_576
    ok_codes: tuple[int, ...] = (0,)
    is_idempotent: bool = False
    """Whether a second start does no harm: its offer comes with the go."""
    digest: str = ""
    refusal: str = ""
    """Why nothing can be run: the job's spec does not fit its command type. Its executions are refused, and
    what their runs report still counts."""


class JobCommand(msgspec.Struct, frozen=True):
    """A job, and what its executions run."""

    job: Job
    command: RunCommand


class Run(msgspec.Struct, frozen=True):
    """An execution, as far as a sync is about it."""

    task: Task
    execution: Execution
    job: JobCommand

    @property
    def taken(self) -> list[int]:
        """The tokens whose end was reported."""
        return taken_tokens(self.execution)

    def holds(self, token: int) -> bool:
        """Whether the claim of this token holds the task."""
        task = self.task
        return task.status in LEASED and task.claim_id == claim_id(task.id, token)


class AgentStanding(msgspec.Struct, frozen=True):
    """The host that a sync comes from."""

    agent: Agent
    node_state: NodeState
    incarnation: int
    """Of the node. A start makes a newer one."""
    host: str
    host_state: HostState
    slot: LeaseRow
    host_returned_at: float | None = None
    """When the host was added again after a removal. What was made before is not for this machine."""

    def is_other_than(self, job: Job) -> bool:
        """Whether the job may mean another machine."""
        return self.host_returned_at is not None and self.host_returned_at > job.created_at


class PlacedChunk(msgspec.Struct, frozen=True):
    """Bytes that belong to the output of a run. The store finds out whether it has them."""

    task_id: str
    fence: int
    stream: str
    start: int
    data: bytes
    gap: int = 0
    """Bytes that the agent dropped at `start`, instead of data."""


class EndedRun(msgspec.Struct, frozen=True):
    """A run whose end was reported: its output is complete."""

    task_id: str
    fence: int
    result: AgentResult


class SyncEffects(msgspec.Struct):
    """What a sync changes, and what its answer says. The store writes it."""

    slot: LeaseRow
    rulings: list[Ruling] = []
    events: list[NewEvent] = []
    """Events about runs that change no task."""
    executions: dict[str, Execution] = {}
    """Changed rows, by task id."""
    renewals: list[RunId] = []
    chunks: list[PlacedChunk] = []
    ended: list[EndedRun] = []
    go: list[TokenRef] = []
    withdraw: list[AgentWithdrawal] = []
    commands: list[AgentCommand] = []
    acks: list[str] = []
    probe: list[TokenRef] = []
    repeat: Run | None = None
    """An offer whose answer may be lost: it is sent again."""
    log_next: dict[str, int] = {}
    """Streams whose bytes are not wanted, and where the agent goes on."""
    confirmed: list[RunId] = []
    """Runs that a command has ended on the host."""
    reconciled: int = 0
    late: int = 0
    may_offer: bool = False
    """Whether the host may get another execution now."""


def claim_id(execution: str, token: int) -> str:
    """The id of the claim by which a token holds the task of its execution."""
    return f"{execution}#{token}"


def taken_tokens(execution: Execution) -> list[int]:
    """The tokens of an execution whose end was reported."""
    return msgspec.json.decode(execution.taken_json, type=list[int])


def taken_with(execution: Execution, token: int) -> str:
    """The tokens whose end was reported, with this one."""
    return codec.dumps([*taken_tokens(execution), token][-TAKEN_MAX:])


def named(message: AgentSync) -> set[str]:
    """The executions that a message names."""
    parts = (message.accepts, message.running, message.chunks, message.results, message.refuses)
    return {one.execution for part in parts for one in part}


def asks_for_start(message: AgentSync) -> bool:
    """Whether the answer may let an execution start: a go, or an offer."""
    is_free = message.capacity > 0 and not message.running
    return (
        bool(message.accepts)
        or is_free
        or any(r.phase == RunPhase.ACCEPTED for r in message.running)
    )


def acked_token(slot: LeaseRow, message: AgentSync) -> int:
    """The newest token that the agent may forget, with all before it."""
    settled = slot.fence if slot.claim_id is None else slot.fence - 1
    return max(0, min([settled, *(run.token - 1 for run in message.running)]))
