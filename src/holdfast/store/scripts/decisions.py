"""Transactions of decisions: ask, decide, expire, cancel.

Promises: a question, its checkpoint and the pause of its task are one transaction, and so are an answer, the
resumption of the task and the audit of the answer. The task is locked before its decision.
Never: decides; `core.decision` and `core.decide` do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from holdfast.core import codec, decision as rules, gate
from holdfast.core.audit import AuditEntry
from holdfast.core.command import Instruction, NamedPoint, Suspend, Wake
from holdfast.core.decision import Choice, Decision, DecisionState, Question
from holdfast.core.event import NewEvent
from holdfast.core.runner_rules import HANDLER
from holdfast.core.task import LEASED, Task
from holdfast.core.transition import Refusal
from holdfast.errors import NotFound
from holdfast.store.beside import Beside, begin, end
from holdfast.store.script import Script, call
from holdfast.store.scripts import apply, audit, checkpoints
from holdfast.store.scripts.decision_rows import event_of, put, read_decision
from holdfast.store.scripts.nodes import affinity_to
from holdfast.store.scripts.work import Recorder, Work

NO_DATA: Final = "null"
CHECKPOINT: Final = "decision"
"""The type of a checkpoint that comes with a question."""


class Asked(msgspec.Struct, frozen=True):
    """The task waits for this decision; the run that asked has ended."""

    decision: Decision


def ask(
    task_id: str,
    fence: int,
    question: Question,
    *,
    decision_id: str,
    now: float,
    record_id: int,
    recorder: Recorder,
) -> Script[Decision | Asked | Refusal]:
    """Asks on behalf of a run. A key that was answered gets its answer, and nothing is written. A repeat of a
    question whose commit was not acknowledged is recognised by the fence of the run."""
    work = Work(now)
    work.load((yield call("lock_tasks", ids=[task_id])))
    task = work.tasks.get(task_id)
    if task is None:
        return Refusal(task_id, "not-found", f"task {task_id} does not exist")
    existing = yield from _of_key(task_id, question.key)
    if task.fence != fence or task.status not in LEASED:
        if existing is not None and existing.fence == fence and _waits(task, existing):
            return Asked(existing)
        text = f"the runner's fence {fence} of task {task_id} is old (now {task.fence})"
        return Refusal(task_id, "lease-lost", text, (), task)
    decision, refusal = yield from ask_loaded(
        work, task, question, decision_id=decision_id, existing=existing
    )
    if refusal is not None:
        return refusal
    if decision.state is not DecisionState.OPEN:
        return decision
    yield from _add_checkpoint(work, task, decision, shown_data(question.data_json, task))
    yield from apply.finish(work, record_id, recorder)
    return Asked(decision)


def ask_loaded(
    work: Work,
    task: Task,
    question: Question,
    *,
    decision_id: str,
    existing: Decision | None = None,
) -> Script[tuple[Decision, Refusal | None]]:
    """Writes the question of a loaded task and pauses the task. The caller writes the checkpoint and saves
    the work. A decision that has ended is returned as it is, and the task goes on."""
    now = work.now
    if existing is None:
        existing = yield from _of_key(task.id, question.key)
    if existing is None:
        decision = rules.asked(question, task, decision_id=decision_id, now=now)
    else:
        decision = rules.asked_again(existing, question, task, now)
    if decision.state is not DecisionState.OPEN:
        return decision, None
    command = Suspend(HANDLER, decision.question, decision.id)
    ruling = apply.carry_out(work, Instruction(task.id, command, fence=task.fence))
    if isinstance(ruling, Refusal):
        return decision, ruling
    if decision is not existing:
        yield from put(decision)
    data = rules.event_data(decision)
    work.mention([event_of("checkpoint.hitl_required", work.tasks[task.id], now, data)])
    return decision, None


def decide(
    decision_id: str,
    choice: Choice,
    *,
    act: audit.Act,
    now: float,
    record_id: int,
    recorder: Recorder,
    affinity_seconds: float = 0.0,
    beside: Beside | None = None,
) -> Script[Decision]:
    """Answers a decision. Its task prefers the node that asked, if that is live. The outcome for `beside` is
    the decision. A repeat of the answer writes nothing."""
    yield from begin(beside, now)
    work, decision = yield from _locked(decision_id, now)
    after = rules.decided(decision, choice, now)
    if rules.as_of(decision, now).state is not DecisionState.OPEN:
        yield from end(beside, after, now)
        return after
    yield from put(after)
    yield from _wake(work, after, affinity_seconds)

    def then(now: float) -> Script[Sequence[NewEvent]]:
        more = yield from end(beside, after, now)
        yield from audit.append([_entry(after, act, now)])
        return more

    yield from apply.finish(work, record_id, recorder, then=then)
    return after


def lapse(
    decision_id: str, *, now: float, record_id: int, recorder: Recorder
) -> Script[Decision | None]:
    """Ends a decision whose deadline has passed. Its task prefers no node. None if the decision is still open
    or ended before."""
    work, decision = yield from _locked(decision_id, now)
    after = rules.as_of(decision, now)
    if after is decision:
        return None
    yield from put(after)
    yield from _wake(work, after)
    yield from apply.finish(work, record_id, recorder)
    return after


def _of_key(task_id: str, key: str) -> Script[Decision | None]:
    rows = yield call("lock_decision_of", task_id=task_id, key=key)
    return read_decision(rows[0]) if rows else None


def _locked(decision_id: str, now: float) -> Script[tuple[Work, Decision]]:
    """Locks the task of a decision, then the decision."""
    rows = yield call("get_decision", id=decision_id)
    if not rows:
        raise NotFound(f"there is no decision {decision_id}")
    work = Work(now)
    work.load((yield call("lock_tasks", ids=[read_decision(rows[0]).task_id])))
    rows = yield call("lock_decisions", ids=[decision_id])
    if not rows:
        raise NotFound(f"there is no decision {decision_id}")
    return work, read_decision(rows[0])


def _wake(work: Work, decision: Decision, affinity_seconds: float = 0.0) -> Script[None]:
    """Resumes the task of a decision that has ended, and records the event."""
    task = work.tasks.get(decision.task_id)
    if task is None:
        return
    actor = decision.by or rules.DEADLINE
    nodes = () if task.node is None else (task.node,)
    affinity = yield from affinity_to(nodes, affinity_seconds, now=work.now)
    wake = Wake(decision.id, actor, decision.state.value, affinity)
    apply.carry_out(work, Instruction(task.id, wake))
    data = rules.event_data(decision)
    kind = rules.ENDED_EVENTS[decision.state]
    work.mention([event_of(kind, work.tasks[task.id], work.now, data)])


def _waits(task: Task, decision: Decision) -> bool:
    return gate.decision_of(task) == decision.id


def shown_data(data_json: str, task: Task) -> str:
    """What a question shows: its data, or what the task saved last."""
    return (task.checkpoint_json or NO_DATA) if data_json == NO_DATA else data_json


def _add_checkpoint(work: Work, task: Task, decision: Decision, data_json: str) -> Script[None]:
    point = NamedPoint(decision.id, CHECKPOINT, decision.question)
    yield from checkpoints.add(task, point, data_json, work.now)
    data = {"checkpoint_id": point.id, "type": point.type, "note": point.note}
    work.mention([event_of("checkpoint.created", work.tasks[task.id], work.now, data)])


def _entry(decision: Decision, act: audit.Act, now: float) -> AuditEntry:
    return AuditEntry(
        at=now,
        actor=decision.by,
        operation=act.operation,
        project=decision.project,
        subject=decision.id,
        reason=decision.reason,
        before_version=decision.version - 1,
        after_version=decision.version,
        detail_json=codec.dumps({"task": decision.task_id, "choice": decision.choice}),
        request_id=act.request_id,
    )
