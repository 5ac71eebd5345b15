"""Ends executions that must not start, or must not go on: of a halted, rejected, expired or aborted job.

Promises: an execution that has got its go is ended only if its job is aborted; its agent gets an
intervention and the row says that the end is not confirmed. All others end as what never started. The
transaction that ends a task writes why. Never: ends an execution twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from holdfast.core.command import Abort, Instruction
from holdfast.core.event import NewEvent
from holdfast.core.fleet.agents.facts import taken_tokens
from holdfast.core.fleet.model import Execution
from holdfast.core.fleet.status import ExecutionKind, ends_as
from holdfast.core.ids import Ids
from holdfast.core.intervention import PREFIX, InterventionType, NewIntervention, issued
from holdfast.core.start_once import BEFORE_GO, phase_of
from holdfast.core.task import ENDED, LEASED, Task
from holdfast.core.transition import Transition
from holdfast.fleet.jobs.rows import own
from holdfast.store.script import Script, call, call_rows
from holdfast.store.scripts import apply
from holdfast.store.scripts.interventions import add_rows
from holdfast.store.scripts.work import Work

CANCELLED_KILLED: Final = ExecutionKind.CANCELLED_KILLED
CANCELLED_UNCONFIRMED: Final = ExecutionKind.CANCELLED_UNCONFIRMED


class Reason(NamedTuple):
    """Why an execution ends, or what holds it."""

    kind: ExecutionKind | None
    detail: str
    block_id: str | None = None


def has_go(task: Task) -> bool:
    """Whether its host may have started it: it has a run that got its go."""
    return task.status in LEASED and phase_of(task) not in BEFORE_GO


def end_unstarted(
    work: Work,
    found: Sequence[Execution],
    why: Callable[[Execution, Task], Reason],
    *,
    actor: str,
) -> dict[str, Reason]:
    """Aborts those of the loaded tasks that have no go. Returns why, by task."""
    reasons: dict[str, Reason] = {}
    for execution in found:
        task = work.tasks.get(execution.task_id)
        if task is None or task.status in ENDED or has_go(task):
            continue
        reason = _ended_as(task, why(execution, task))
        command = Abort(actor, reason.detail)
        if isinstance(apply.carry_out(work, Instruction(task.id, command)), Transition):
            reasons[task.id] = reason
    return reasons


def _ended_as(task: Task, reason: Reason) -> Reason:
    if reason.kind is None:
        return reason
    kind, detail = ends_as(task, reason.kind, reason.detail)
    return reason._replace(kind=kind, detail=detail)


KilledRow = tuple[Task, NewIntervention, Transition]
"""The task before, the order to its agent, and the change."""


class Killed(NamedTuple):
    """Executions that were aborted after their go."""

    reasons: dict[str, Reason]
    rows: list[KilledRow]


def kill_running(
    work: Work, found: Sequence[Execution], ids: Ids, *, actor: str, reason: str
) -> Killed:
    """Aborts those of the loaded tasks that have their go. Their agents are ordered to end the command."""
    killed = Killed({}, [])
    for execution in found:
        task = work.tasks.get(execution.task_id)
        if task is None or not has_go(task):
            continue
        command = Abort(actor, reason)
        new = NewIntervention(
            id=PREFIX + ids.task(work.now).replace("-", ""),
            task_id=task.id,
            type=InterventionType.ABORT,
            command=command,
            actor=actor,
            reason=reason,
        )
        ruling = apply.carry_out(work, Instruction(task.id, command))
        if isinstance(ruling, Transition):
            # A slot that was revoked: its agent may have reported the end already.
            is_over = execution.token in taken_tokens(execution)
            kind = CANCELLED_KILLED if is_over else CANCELLED_UNCONFIRMED
            killed.reasons[task.id] = Reason(kind, reason)
            killed.rows.append((task, new, ruling))
    return killed


def write_reasons(reasons: Mapping[str, Reason]) -> Script[None]:
    rows: list[tuple[Any, ...]] = [
        (task_id, None if why.kind is None else why.kind.value, why.detail, why.block_id)
        for task_id, why in sorted(reasons.items())
    ]
    if rows:
        yield call_rows(own("explain_executions"), rows)


def write_kills(killed: Killed, now: float) -> Script[Sequence[NewEvent]]:
    """The interventions that the agents of killed executions get."""
    rows = [(issued(new, task, ruling, now), ruling.after) for task, new, ruling in killed.rows]
    return (yield from add_rows(rows, now))


def lock_executions(
    work: Work, found: Sequence[Execution], more: Sequence[str] = ()
) -> Script[None]:
    """Locks and loads the tasks of executions, and those with the ids `more`."""
    if ids := sorted({*more, *(execution.task_id for execution in found)}):
        work.load((yield call("lock_tasks", ids=ids)))
