"""Which execution a host is offered next.

Promises: the job and the blocks are judged in the transaction that makes the offer. An execution that may
not start any more ends there, with its reason; one that a block holds is held by it; one whose job is paused
keeps its place. The slot is taken under a new token with the claim. Never: I/O, clocks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import msgspec
from msgspec.structs import replace

from holdfast.core import decide
from holdfast.core.command import Abort, Instruction, Pause, Report
from holdfast.core.errors import CommandRefused
from holdfast.core.fleet.agents.facts import AgentStanding, Run, RunCommand, claim_id
from holdfast.core.fleet.agents.wire import AgentOffer
from holdfast.core.fleet.blocks.block import block_text
from holdfast.core.fleet.jobs.unstarted import OTHER_MACHINE, UnstartedEnd, unstarted_end
from holdfast.core.fleet.model import (
    ApprovalState,
    Block,
    BlockEffect,
    Execution,
    HostState,
    JobStatus,
)
from holdfast.core.fleet.status import ExecutionKind, ends_as
from holdfast.core.gate import BLOCK_ACTOR
from holdfast.core.lease import TTL_SECONDS_MAX, LeaseRow
from holdfast.core.node_identity import NodeState, may_claim
from holdfast.core.start_once import RunPhase, phase_json
from holdfast.core.task import Task
from holdfast.core.transition import Ruling, applied

ACTOR: Final = "fleet"
"""The actor of an execution that ends because it may not start."""
SLOT_SECONDS: Final = TTL_SECONDS_MAX

BlockVerdict: TypeAlias = Callable[[Run], Block | None]
"""The block that keeps an execution from its host now."""
EnvironmentOf: TypeAlias = Callable[[RunCommand], dict[str, str]]
"""The variables of a run, with secrets. CommandRefused if one cannot be had."""


class Waits(msgspec.Struct, frozen=True):
    """The execution keeps its place in the line."""

    reason: str


class Offered(msgspec.Struct, frozen=True):
    """The outcome for one host."""

    rulings: list[Ruling]
    executions: list[Execution]
    slot: LeaseRow
    run: Run | None = None
    """The run that the host is offered."""
    env: dict[str, str] = {}
    ended: tuple[str, ...] = ()
    """Outcomes of executions that ended instead."""


def may_start(
    run: Run, now: float, blocked_by: BlockVerdict = lambda run: None
) -> Waits | UnstartedEnd | None:
    """Whether an execution may start now. None: it may. What a block keeps from starting waits here: the next
    offer ends or holds it."""
    job = run.job.job
    end = unstarted_end(job, run.execution, run.task, now)
    if end is not None:
        return end
    if job.approval_state not in (ApprovalState.NOT_REQUIRED, ApprovalState.APPROVED):
        return Waits("the job waits for an approval")
    if job.halt_json is not None:
        return Waits("the job is paused")
    if job.status is not JobStatus.RUNNING:
        return Waits("the job has not started")
    if run.execution.away:
        return Waits("the host waits for its turn")
    block = blocked_by(run)
    return None if block is None else Waits(block_text(block, now))


def why_not(standing: AgentStanding, run: Run, now: float, blocked_by: BlockVerdict) -> str | None:
    """Why a run that was offered may not start now."""
    if not is_in_service(standing.node_state, standing.host_state):
        return "the host is out of service"
    if standing.is_other_than(run.job.job):
        return OTHER_MACHINE.detail
    match may_start(run, now, blocked_by):
        case Waits(reason):
            return reason
        case UnstartedEnd(detail=detail):
            return detail
        case None:
            return None


def may_be_offered(node_state: NodeState, host_state: HostState, slot: LeaseRow) -> bool:
    """Whether a host gets new executions: it is in service, and its slot is free."""
    is_free = slot.claim_id is None and slot.free_at <= slot.clock_at
    return is_free and is_in_service(node_state, host_state)


def is_in_service(node_state: NodeState, host_state: HostState) -> bool:
    """Whether a host may start executions."""
    return may_claim(node_state) and host_state is HostState.ACTIVE


def next_offer(
    candidates: Sequence[Run],
    slot: LeaseRow,
    *,
    standing: AgentStanding,
    blocked_by: BlockVerdict,
    environment_of: EnvironmentOf,
    lease_seconds: float,
    now: float,
) -> Offered:
    """Offers the first candidate that may start. `candidates`: due executions of the host, in order. `slot`:
    as the sync has left it."""
    rulings: list[Ruling] = []
    executions: list[Execution] = []
    ended: list[str] = []
    for run in candidates:
        verdict: Waits | UnstartedEnd | None = may_start(run, now)
        if verdict is None and standing.is_other_than(run.job.job):
            verdict = OTHER_MACHINE
        if isinstance(verdict, Waits):
            continue
        block = blocked_by(run) if verdict is None else None
        if block is not None and block.effect is BlockEffect.HOLD:
            rulings.append(_hold(run, block, now))
            executions.append(replace(run.execution, block_id=block.id))
            continue
        if block is not None:
            verdict = UnstartedEnd(ExecutionKind.BLOCKED, block_text(block, now))
        if verdict is None and run.job.command.refusal:
            verdict = UnstartedEnd(ExecutionKind.REFUSED, run.job.command.refusal)
        env: dict[str, str] = {}
        if verdict is None:
            try:
                env = environment_of(run.job.command)
            except CommandRefused as error:
                verdict = UnstartedEnd(ExecutionKind.REFUSED, str(error))
        if verdict is not None:
            verdict = UnstartedEnd(*ends_as(run.task, verdict.kind, verdict.detail))
            rulings.append(_end(run, verdict, now))
            executions.append(
                replace(run.execution, outcome=verdict.kind.value, detail=verdict.detail)
            )
            ended.append(verdict.kind.value)
            continue
        taken = _taken(slot, run, standing.host, now)
        moves, granted = _claim(run, taken.fence, lease_seconds, now)
        rulings += moves
        executions.append(granted.execution)
        return Offered(rulings, executions, taken, granted, env, tuple(ended))
    return Offered(rulings, executions, slot, ended=tuple(ended))


def _end(run: Run, verdict: UnstartedEnd, now: float) -> Ruling:
    return decide.decide(
        run.task, Instruction(run.task.id, Abort(actor=ACTOR, reason=verdict.detail)), now
    )


def _hold(run: Run, block: Block, now: float) -> Ruling:
    pause = Pause(actor=f"{BLOCK_ACTOR}{block.id}", reason=block_text(block, now))
    return decide.decide(run.task, Instruction(run.task.id, pause), now)


def _taken(slot: LeaseRow, run: Run, host: str, now: float) -> LeaseRow:
    return replace(
        slot,
        fence=slot.fence + 1,
        claim_id=run.task.id,
        owner=f"host:{host}",
        ttl_seconds=SLOT_SECONDS,
        granted_at=now,
        expires_at=now + SLOT_SECONDS,
        free_at=0.0,
    )


def _claim(run: Run, token: int, lease_seconds: float, now: float) -> tuple[list[Ruling], Run]:
    """The claim under a token. A command that may start twice has its go at once."""
    claimed = decide.claim(
        run.task,
        node=run.execution.host_id,
        lease_seconds=lease_seconds,
        now=now,
        claim_id=claim_id(run.task.id, token),
    )
    moves: list[Ruling] = [claimed]
    after = claimed.after
    has_go = run.job.command.is_idempotent
    if has_go:
        moves.append(reported(after, RunPhase.GO, now))
        after = applied(moves[-1]) or after
    execution = replace(
        run.execution,
        token=token,
        fence=after.fence,
        go_at=now if has_go else None,
        outcome=None,
        detail="",
        exit_code=None,
        signal=None,
    )
    return moves, Run(after, execution, run.job)


def reported(task: Task, phase: RunPhase, now: float) -> Ruling:
    """The run that holds the task has come to this phase."""
    report = Report(progress_json=phase_json(phase), is_running=True)
    return decide.decide(task, Instruction(task.id, report, fence=task.fence), now)


def offer_of(run: Run, env: dict[str, str], accept_within_seconds: float) -> AgentOffer:
    """The offer of a run that was granted, as its agent gets it."""
    execution, command = run.execution, run.job.command
    assert execution.token is not None, "it was granted"
    assert execution.fence is not None, "it was granted"
    return AgentOffer(
        execution=execution.task_id,
        fence=execution.fence,
        token=execution.token,
        job=execution.job_id,
        command_type=command.command_type,
        kind=command.kind,
        argv=list(command.argv),
        env=env,
        secret_env=sorted(command.secrets),
        run_as=command.run_as,
        accept_within_seconds=accept_within_seconds,
        exec_timeout_seconds=command.exec_timeout_seconds,
        grace_seconds=command.grace_seconds,
        on_restart=command.on_restart,
        probe_argv=list(command.probe_argv),
        output_bytes=command.output_bytes,
        ok_codes=list(command.ok_codes),
        digest=command.digest,
        go=execution.go_at is not None,
    )
