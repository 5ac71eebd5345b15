"""How many executions of a job stand where, and when the job may end.

Promises: the counts come from the counters of the job and from the hosts that are open. All its executions
are read only while the ends of some that were aborted are not confirmed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from holdfast.core.fleet.hosts.service import HostService
from holdfast.core.fleet.model import SLOT, Execution, Job
from holdfast.core.fleet.rollout.state import HostOutcome
from holdfast.core.fleet.status import (
    KINDS,
    ExecutionFacts,
    ExecutionKind,
    bucket,
    kind_of,
    shown,
)
from holdfast.core.gate import BLOCK_ACTOR
from holdfast.core.start_once import RunPhase
from holdfast.core.task import FailureKind, Status, Task
from holdfast.fleet.jobs.job_rows import GRANTED, Rollout, counts_of
from holdfast.fleet.jobs.rows import own
from holdfast.store.script import Script, call

FAILURES: Final = frozenset(kind for kind in ExecutionKind if Status.FAILED in KINDS[kind].tasks)
"""Kinds of executions whose late results operators may take over."""


def outcomes_of(
    job: Job, seen: Sequence[Execution], tasks: Mapping[str, Task]
) -> list[tuple[HostOutcome, ExecutionKind]]:
    """Executions that have ended, as the rollout counts them, and by kind."""
    outcomes: list[tuple[HostOutcome, ExecutionKind]] = []
    for execution in seen:
        task = tasks[execution.task_id]
        counted = bucket(task, execution)
        assert counted is not None, f"execution {task.id} has ended, its task has not"
        outcome = HostOutcome(execution.nth, counted, execution.wave, is_away=execution.away)
        outcomes.append((outcome, shown(task, execution, job).kind))
    return outcomes


def count_kinds(job: Job, look: Mapping[str, float | str]) -> Script[dict[str, int]]:
    """Executions by kind: those that were counted, those that are open, and all others, which are new."""
    kinds = Counter(counts_of(job))
    open_rows = yield call(own("open_facts"), job_id=job.id, slot=SLOT, **look)
    for row in open_rows:
        kinds[kind_of(_open_facts(row)).value] += row[7]
    ended_rows = yield call(own("ended_facts"), job_id=job.id)
    for status, failure_kind, outcome, has_go, n in ended_rows:
        facts = ExecutionFacts(
            task_status=Status(status),
            failure_kind=None if failure_kind is None else FailureKind(failure_kind),
            outcome=outcome,
            has_go=bool(has_go),
        )
        kinds[kind_of(facts).value] += n
    if any(kinds[kind.value] for kind in FAILURES):
        yield from _adopted(job, kinds)
    unconfirmed, killed = ExecutionKind.CANCELLED_UNCONFIRMED, ExecutionKind.CANCELLED_KILLED
    if kinds[unconfirmed.value]:
        # An agent may confirm the end of its command after it was counted.
        rows = yield call(own("count_outcome"), job_id=job.id, outcome=killed.value)
        confirmed = rows[0][0] - counts_of(job).get(killed.value, 0)
        kinds[unconfirmed.value] -= confirmed
        kinds[killed.value] += confirmed
    new = job.hosts - sum(kinds.values())
    facts = ExecutionFacts(
        task_status=Status.BLOCKED,
        is_approved=job.approval_state in GRANTED,
        is_started=job.started_at is not None,
    )
    kinds[kind_of(facts).value] += max(0, new)
    return {kind: n for kind, n in sorted(kinds.items()) if n > 0}


def _adopted(job: Job, kinds: Counter[str]) -> Script[None]:
    """Moves executions whose late results operators have taken over, after the rollout had counted them."""
    rows = yield call(own("adopted_facts"), job_id=job.id)
    for failure_kind, outcome, has_go, n in rows:
        before = ExecutionFacts(
            task_status=Status.FAILED,
            failure_kind=None if failure_kind is None else FailureKind(failure_kind),
            outcome=outcome,
            has_go=bool(has_go),
        )
        kinds[kind_of(before).value] -= n
        kinds[ExecutionKind.SUCCEEDED.value] += n


def _open_facts(row: Sequence[Any]) -> ExecutionFacts:
    status, phase, by_block, is_held, service, is_busy, away, _ = row
    holder = BLOCK_ACTOR if by_block else "operator"
    return ExecutionFacts(
        task_status=Status(status),
        phase=RunPhase(phase) if phase in set(RunPhase) else RunPhase.OFFERED,
        held_by=holder if is_held else None,
        service=HostService(service),
        host_busy=bool(is_busy),
        is_away=bool(away),
    )


def eta_seconds(job: Job, rollout: Rollout, now: float) -> float | None:
    """By the time that those which have ended took, together."""
    state = rollout.state
    ended = state.ended.total
    if job.finished_at is not None or job.started_at is None or state.halt is not None or not ended:
        return None
    return (now - job.started_at) / ended * (job.hosts - ended)
