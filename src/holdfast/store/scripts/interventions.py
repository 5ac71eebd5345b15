"""Transactions of interventions: issue, deliver, acknowledge, end.

Promises: the change of the task, the row, its events and the audit are one transaction. A repeat of an id
writes nothing. Tasks are locked before their interventions. Never: decides; `core.intervention` and
`core.decide` do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import asdict, replace

from holdfast.core import codec, intervention as rules
from holdfast.core.audit import AuditEntry
from holdfast.core.command import Instruction
from holdfast.core.event import NewEvent
from holdfast.core.intervention import (
    AckOutcome,
    Effect,
    Intervention,
    InterventionState,
    InterventionType,
    NewIntervention,
)
from holdfast.core.node_identity import SHUT_OUT, NodeState
from holdfast.core.task import RunId, Task
from holdfast.core.transition import Refusal, Transition, new_event
from holdfast.errors import InvalidInput
from holdfast.store.beside import Beside, begin, end
from holdfast.store.script import Script, call, call_rows
from holdfast.store.scripts import apply, audit
from holdfast.store.scripts.sync_log import INTERVENE
from holdfast.store.scripts.work import Recorder, Work

DELIVERED_MAX: Final = 100
"""Commands that one delivery has, at most."""
_effect: Final = msgspec.json.Decoder(Effect)
Step = Callable[[Intervention, Task | None], Intervention]


class Issued(msgspec.Struct, frozen=True):
    """The answer to an intervention."""

    intervention: Intervention
    task: Task
    is_repeat: bool = False
    is_cut_short: bool = False
    """Whether a sweeper has to settle the remaining dependents."""


def issue(
    new: NewIntervention,
    *,
    act: audit.Act,
    now: float,
    record_id: int,
    recorder: Recorder,
    beside: Beside | None = None,
) -> Script[Issued | Refusal]:
    """Applies the command of an intervention. A refused command has no row. The outcome for `beside` is
    `Issued` or the refusal."""
    yield from begin(beside, now)
    work = Work(now)
    work.load((yield call("lock_tasks", ids=[new.task_id])))
    stored = yield from get(new.id)
    if stored is not None:
        rules.check_repeat(stored, new)
        task = work.tasks.get(new.task_id)
        if task is not None:
            repeated = Issued(stored, task, is_repeat=True)
            yield from end(beside, repeated, now)
            return repeated
    before = work.tasks.get(new.task_id)
    if new.type is InterventionType.REASSIGN and before is not None:
        yield from check_node(codec.loads_object(new.args_json)["to_node"], before)
    instruction = Instruction(new.task_id, new.command, version=new.expected_version)
    ruling = apply.carry_out(work, instruction)
    if before is None or (isinstance(ruling, Refusal) and ruling.code != "already-applied"):
        assert isinstance(ruling, Refusal)
        yield from end(beside, ruling, now)
        return ruling
    moved = ruling if isinstance(ruling, Transition) else None
    row = rules.issued(new, before, moved, now)
    issued = Issued(row, work.tasks[before.id])

    def then(now: float) -> Script[Sequence[NewEvent]]:
        added = yield from add_rows([(row, issued.task)], now)
        versions = [(before.id, row.actor, before.version, issued.task.version)]
        yield call_rows("log_sync_changes", versions, op=INTERVENE, now=now)
        more = yield from end(beside, issued, now)
        yield from audit.append([_entry(row, before, issued.task, act, now)])
        return (*added, *more)

    yield from apply.finish(work, record_id, recorder, then=then)
    return replace(issued, is_cut_short=work.is_cut_short)


def add_rows(added: Sequence[tuple[Intervention, Task]], now: float) -> Script[list[NewEvent]]:
    """Writes the rows of interventions whose commands were applied to these tasks. Returns their events."""
    if added:
        yield call_rows("add_interventions", [_row(row) for row, _ in added])
    return [event for row, task in added for event in _events(None, row, task, now)]


def check_node(node: str, task: Task) -> Script[None]:
    """A task is assigned to a node that can claim it: a process of the store, or one of its project that may
    speak. A node that names its types runs the type; a gateway names none."""
    rows = yield call("node_standing", id=node)
    if rows:
        project, state, is_registered, info_json = rows[0]
        if not is_registered or (project == task.project and NodeState(state) not in SHUT_OUT):
            types = codec.loads_object(info_json or "{}").get("types")
            if isinstance(types, list) and task.type not in types:
                raise InvalidInput(f"to_node {node!r} does not run tasks of type '{task.type}'")
            return
        if project == task.project:
            raise InvalidInput(f"to_node {node!r} is {state}: it cannot claim the task")
    raise InvalidInput(
        f"node {node!r} is not known in project '{task.project}': `holdfast node list` has the nodes"
    )


def deliver(
    node: str, *, now: float, record_id: int, recorder: Recorder
) -> Script[list[Intervention]]:
    """The commands that wait for a node, in the order of issue. They are delivered by this."""
    pending = yield call("pending_for_node", node=node, limit=DELIVERED_MAX)

    def step(row: Intervention, task: Task | None) -> Intervention:
        current = rules.due(row, task, now)
        return rules.delivered(current, now) if current.is_pending else current

    rows = yield from _advance(pending, step, now=now, record_id=record_id, recorder=recorder)
    return sorted((row for row in rows if row.is_pending), key=lambda row: (row.issued_at, row.id))


def acknowledge(
    intervention_id: str,
    outcome: AckOutcome,
    detail: str,
    *,
    node: str | None,
    now: float,
    record_id: int,
    recorder: Recorder,
) -> Script[Intervention | None]:
    """Ends a command by the answer of its runner. None if there is no such command of this node. A repeat
    gets the row as it is."""
    stored = yield from get(intervention_id)
    if stored is None or (node is not None and stored.target_node != node):
        return None
    rows = yield from _advance(
        [(stored.id, stored.task_id)],
        lambda row, _task: rules.acknowledged(row, outcome, detail, now),
        now=now,
        record_id=record_id,
        recorder=recorder,
    )
    return rows[0] if rows else stored


def unwind(
    runs: Sequence[RunId], *, has_stopped: bool, now: float, record_id: int, recorder: Recorder
) -> Script[list[Intervention]]:
    """The runs of a process that were taken away: their commands are delivered, and applied once the handlers
    have stopped."""
    pairs: list[tuple[Any, ...]] = [(run.task_id, run.fence) for run in runs]
    pending = yield call_rows("pending_for_runs", pairs)

    def step(row: Intervention, _task: Task | None) -> Intervention:
        if has_stopped:
            return rules.acknowledged(row, AckOutcome.DONE, rules.UNWOUND, now)
        return rules.delivered(row, now)

    return (yield from _advance(pending, step, now=now, record_id=record_id, recorder=recorder))


def end_due(
    ids: Sequence[str], *, now: float, record_id: int, recorder: Recorder
) -> Script[list[Intervention]]:
    """Ends commands whose time has passed, or whose runner cannot run any more."""
    pending = yield call("tasks_of_interventions", ids=list(ids))
    return (
        yield from _advance(
            pending,
            lambda row, task: rules.due(row, task, now),
            now=now,
            record_id=record_id,
            recorder=recorder,
        )
    )


def _advance(
    pending: Sequence[Sequence[str]],
    step: Step,
    *,
    now: float,
    record_id: int,
    recorder: Recorder,
) -> Script[list[Intervention]]:
    """Moves pending rows along the ladder, with their events. Returns the rows after it."""
    if not pending:
        return []
    work = Work(now)
    ids = sorted({task_id for _, task_id in pending})
    work.load((yield call("lock_reporting", ids=ids)))
    after = yield from advance_loaded(work, pending, step)
    yield from work.save(recorder, record_id)
    return after


def advance_loaded(
    work: Work, pending: Sequence[Sequence[str]], step: Step
) -> Script[list[Intervention]]:
    """The same for tasks that this transaction has locked. `pending`: (id, task id). The caller saves the
    work."""
    rows = yield call("lock_interventions", ids=sorted({row_id for row_id, _ in pending}))
    after: list[Intervention] = []
    changed: list[tuple[Any, ...]] = []
    for before in map(read_intervention, rows):
        task = work.tasks.get(before.task_id)
        row = step(before, task)
        after.append(row)
        if row is not before:
            changed.append((row.id, row.state.value, row.delivered_at, row.ended_at, row.detail))
            if task is not None:
                work.mention(_events(before, row, task, work.now))
    if changed:
        yield call_rows("move_interventions", changed)
    return after


def get(intervention_id: str) -> Script[Intervention | None]:
    rows = yield call("get_intervention", id=intervention_id)
    return read_intervention(rows[0]) if rows else None


def read_intervention(row: Sequence[Any]) -> Intervention:
    """The intervention of a row, in the order of the statements."""
    values = dict(zip(Intervention.__struct_fields__, row, strict=True))
    values["type"] = InterventionType(values["type"])
    values["state"] = InterventionState(values["state"])
    text = values["effect"]
    values["effect"] = None if text is None else _effect.decode(text)
    return Intervention(**values)


def _row(row: Intervention) -> tuple[Any, ...]:
    effect = None if row.effect is None else codec.dumps(asdict(row.effect))
    return (
        row.id,
        row.project,
        row.task_id,
        row.type.value,
        row.args_json,
        row.reason,
        row.actor,
        row.requested_by,
        row.target_node,
        row.target_fence,
        row.state.value,
        row.issued_at,
        row.delivered_at,
        row.ended_at,
        row.expires_at,
        row.lease_until,
        effect,
        row.detail,
        rules.due_at(row),
    )


def _events(
    before: Intervention | None, after: Intervention, task: Task, now: float
) -> list[NewEvent]:
    data = rules.event_data(after)
    return [
        replace(new_event(kind, task, now, **data), version=task.version)
        for kind in rules.events_between(before, after)
    ]


def _entry(row: Intervention, before: Task, after: Task, act: audit.Act, now: float) -> AuditEntry:
    return AuditEntry(
        at=now,
        actor=row.actor,
        operation=act.operation,
        project=row.project,
        subject=row.task_id,
        reason=row.reason,
        before_version=before.version,
        after_version=after.version,
        detail_json=codec.dumps(
            {"intervention": row.id, "type": row.type.value, "args": codec.loads(row.args_json)}
        ),
        request_id=act.request_id,
    )
