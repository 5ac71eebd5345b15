"""Applies messages of workers: any number of them, of any workers, in one transaction.

Promises: the receiver rows commit with the effects, so a repeated message changes nothing. Every change of a
task is fenced, and made only by the node that holds the task. A refused change is answered with the state of
its task; its message counts as applied, so a bad change never blocks what follows. With `skips_held` this
includes changes of tasks that another transaction holds: the worker sends them again.
Never: decides a transition (`core.decide` does), or whether a node may connect (the gateway does).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

import msgspec

from holdfast.core import speaking
from holdfast.core.check import check_choice
from holdfast.core.command import AUTO, Instruction, NamedPoint, Report
from holdfast.core.node_identity import NodeState
from holdfast.core.output import Placement, StreamName
from holdfast.core.speaking import NodeStanding, Voice
from holdfast.core.task import LEASED, QUEUED, Task
from holdfast.core.totals import reported
from holdfast.core.transition import Refusal
from holdfast.core.wire import WHOLE_MAX
from holdfast.core.worker.bounds import WrongChange, bounded
from holdfast.core.worker.changes import (
    Reporter,
    checkpoint_data,
    command_of,
    metrics_of,
)
from holdfast.core.worker.protocol import Receiver, Reception, ack_of, receive
from holdfast.core.worker.wire import (
    CHUNK_BYTES_MAX,
    Change,
    ChangeRefused,
    Changes,
    CheckpointChange,
    MetricsChange,
    OutputChunk,
    SyncAck,
    TaskChange,
)
from holdfast.errors import InvalidInput
from holdfast.store.port import Dialect
from holdfast.store.script import Script, call, call_rows
from holdfast.store.scripts import apply
from holdfast.store.scripts.decisions import shown_data
from holdfast.store.scripts.holders import fences_of
from holdfast.store.scripts.live import REFUSED, Stream, output_event
from holdfast.store.scripts.work import Work
from holdfast.sync.tally import write_tally
from holdfast.sync.worker.figures import tallies
from holdfast.sync.worker.live_rows import LiveRows, own
from holdfast.sync.worker.ordering import in_order, lock_of
from holdfast.sync.worker.plain import Inbound, completion, known_completions
from holdfast.sync.worker.refusals import answer_repeats, keep_refused, shown

_SUCCESS: Final = "already-applied"
SHUT_OUT_INCARNATION: Final = WHOLE_MAX + 1
"""An incarnation above all others: every message of a node that is shut out is fenced."""


class MessageAnswer(msgspec.Struct, frozen=True):
    """What became of a message."""

    outcome: Reception
    ack: SyncAck


class Applied(NamedTuple):
    """What a transaction of messages has done."""

    answers: list[MessageAnswer]
    is_cut_short: bool = False
    """Whether dependents are left for the sweeper."""
    frees_work: bool = False
    """Whether a task may be ready now that was not before."""
    late: int = 0
    """Results of runs that had lost their task."""


class AskDecision(Protocol):
    """Pauses a task with a question to a person; the part that stores decisions provides it."""

    def __call__(
        self, work: Work, task: Task, change: CheckpointChange, data_json: str
    ) -> Script[Refusal | None]: ...


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """What a transaction gets from outside: time, ids, and the parts of other packages."""

    now: float
    record_id: int
    plain_record_id: int
    """Of the completions in one statement."""
    known: Mapping[str, Task] = {}
    """Tasks as they were claimed, by id: see `plain.KnownTasks`."""
    dialect: Dialect
    ask_decision: AskDecision
    skips_held: bool = False
    """Refuses changes of tasks that another transaction holds, with the code `held`, and waits for none."""


def apply_messages(messages: Sequence[Inbound], batch: Batch) -> Script[Applied]:
    """Applies messages in the order given. Answers are in the same order."""
    receivers = yield from _lock_receivers({message.node for message in messages})
    before = dict(receivers)
    outcomes: list[Reception] = []
    acks: list[SyncAck] = []
    for message in messages:
        outcome, after = receive(receivers.get(message.node), message.incarnation, message.sequence)
        if after is not None:
            receivers[message.node] = after
        outcomes.append(outcome)
        acks.append(ack_of(outcome, after, message.sequence))
    accepted = [n for n, outcome in enumerate(outcomes) if outcome is Reception.APPLY]
    projects = [message.project for message in messages]
    if not accepted:
        yield from answer_repeats(messages, outcomes, acks)
        yield from _add_tallies(projects, outcomes, acks)
        return Applied(_answers(outcomes, acks))
    work, live = Work(batch.now), LiveRows()
    effect = _Effect(work, live, batch)
    pending = [messages[n] for n in accepted]
    if not (yield from effect.complete_known(pending)):
        checked = [bounded(message.changes) for message in pending]
        pending = [
            msgspec.structs.replace(message, changes=changes)
            for message, (changes, _) in zip(pending, checked, strict=True)
        ]
        yield from effect.load(pending, {one.task_id for _, wrong in checked for one in wrong})
        yield from effect.complete_plain(pending)
        for n, message, (_, wrong) in zip(accepted, pending, checked, strict=True):
            refused, ends = yield from effect.carry_out(messages[n], message.changes, wrong)
            acks[n] = msgspec.structs.replace(acks[n], refused=tuple(refused), output_next=ends)
        yield from live.save(batch.now)
        yield from keep_refused((messages[n], acks[n]) for n in accepted)
    yield from answer_repeats(messages, outcomes, acks)
    changed = [
        (node, known.incarnation, known.applied_through)
        for node, known in sorted(receivers.items())
        if known != before[node]
    ]
    yield call_rows(own("write_receivers"), [*changed], now=batch.now)
    yield from _add_tallies(projects, outcomes, acks)
    yield from apply.finish(work, batch.record_id, batch.dialect)
    has_refusals = any(ack.refused for ack in acks)
    frees_work = any(
        task.status is QUEUED or task.limits or task.has_dependents for task in work.tasks.values()
    )
    late = sum(event.kind == "task.late" for event in work.events) if has_refusals else 0
    return Applied(_answers(outcomes, acks), work.is_cut_short, frees_work, late)


def _add_tallies(
    projects: list[str], outcomes: list[Reception], acks: list[SyncAck]
) -> Script[None]:
    for project, figures in tallies(projects, outcomes, acks):
        yield from write_tally(project, figures)


def _answers(outcomes: list[Reception], acks: list[SyncAck]) -> list[MessageAnswer]:
    return [MessageAnswer(outcome, ack) for outcome, ack in zip(outcomes, acks, strict=True)]


def _lock_receivers(nodes: set[str]) -> Script[dict[str, Receiver]]:
    """The receivers by node. A node that was registered since, or shut out, has ended its older incarnations:
    its receiver is that of the next one, which has applied nothing."""
    rows = yield call(own("lock_receivers"), nodes=sorted(nodes))
    receivers = {}
    for node, incarnation, applied_through, _, registered, state in rows:
        if state is not None and not _may_speak(node, state, registered):
            receivers[node] = Receiver(SHUT_OUT_INCARNATION)
        elif registered is not None and registered > incarnation:
            receivers[node] = Receiver(registered)
        else:
            receivers[node] = Receiver(incarnation, applied_through)
    return receivers


def _may_speak(node: str, state: str, registered: int) -> bool:
    return speaking.judge(Voice(node), NodeStanding(NodeState(state), registered)) is None


class _Effect:
    """Carries out changes against loaded rows."""

    def __init__(self, work: Work, live: LiveRows, batch: Batch) -> None:
        self._work = work
        self._live = live
        self._batch = batch
        self._message = Inbound("", 0, 0, Changes())
        self._refused: list[ChangeRefused] = []
        self._held: Mapping[str, Task] = {}
        """Tasks that another transaction holds, as they were before it."""
        self._completed: Collection[str] = ()
        """Tasks that `complete_known` or `complete_plain` has completed."""

    def complete_known(self, messages: Sequence[Inbound]) -> Script[bool]:
        """Completes known tasks in one statement, without reading them first: it checks fence and version.
        Returns whether this was all that the messages ask for. Messages with anything else are left alone."""
        if self._batch.skips_held:
            return False  # the statement waits for its rows
        moves = known_completions(messages, self._batch.known, self._batch.now)
        if moves:
            self._completed = yield from self._batch.dialect.fast.complete_plain(
                moves, now=self._batch.now, record_id=self._batch.plain_record_id
            )
        return bool(moves) and len(self._completed) == len(moves)

    def load(self, messages: Sequence[Inbound], wrong_ids: Collection[str]) -> Script[None]:
        """Locks the tasks that are not completed yet, then reads the rows beside them. `wrong_ids`: the tasks
        of changes that are refused, which is answered with their state."""
        changes = [
            change
            for message in messages
            for change in in_order(message.changes)
            if change.task_id not in self._completed
        ]
        ids = sorted({*wrong_ids, *(change.task_id for change in changes)} - {""})
        if ids:
            lock = lock_of(changes, skips_held=self._batch.skips_held)
            self._work.load((yield call(lock, ids=ids)))
            if self._batch.skips_held and (left := [i for i in ids if i not in self._work.tasks]):
                self._held = {task.id: task for task in (yield call("get_tasks", ids=left))}
        streams = [
            Stream(task.id, task.fence, change.stream)
            for change in changes
            if isinstance(change, OutputChunk)
            and (task := self._work.tasks.get(change.task_id)) is not None
        ]
        checkpoints = [change for change in changes if isinstance(change, CheckpointChange)]
        yield from self._live.load(streams, checkpoints)

    def complete_plain(self, messages: Sequence[Inbound]) -> Script[None]:
        """Completes plain tasks in one statement, with the same effect as the general path."""
        if self._completed:
            return  # the record id is used
        named = Counter(c.task_id for m in messages for c in in_order(m.changes))
        moves = [
            move
            for message in messages
            for change in message.changes.task
            if named[change.task_id] == 1
            and (task := self._work.tasks.get(change.task_id)) is not None
            and task.project == message.project
            and (move := completion(change, task, message.node, self._batch.now)) is not None
        ]
        if moves:
            self._completed = yield from self._batch.dialect.fast.complete_plain(
                moves, now=self._batch.now, record_id=self._batch.plain_record_id
            )

    def carry_out(
        self, message: Inbound, changes: Changes, wrong: Sequence[WrongChange]
    ) -> Script[tuple[list[ChangeRefused], dict[str, int]]]:
        """Carries out these changes of a message; `wrong` are its others. Returns those that were refused,
        and where each stream of output ends that the message wrote to."""
        self._message = message
        self._refused = [
            self._shown(one.change, Refusal(one.task_id, one.error.code, str(one.error)), one.fence)
            for one in wrong
        ]
        ends: dict[str, int] = {}
        for change in in_order(changes):
            if change.task_id in self._completed:
                continue
            try:
                refusal = yield from self._one(change, ends)
            except InvalidInput as error:
                refusal = Refusal(change.task_id, error.code, str(error))
            if refusal is not None and refusal.code != _SUCCESS:
                self._refused.append(self._shown(change, refusal, change.fence))
        return self._refused, ends

    def _one(self, change: Change, ends: dict[str, int]) -> Script[Refusal | None]:
        held = self._held.get(change.task_id)
        if held is not None and held.project == self._message.project:
            return apply.held_by_another(held.id)
        task = self._work.tasks.get(change.task_id)
        if task is None or task.project != self._message.project:
            return Refusal(change.task_id, "not-found", f"task {change.task_id} does not exist")
        fence = change.fence or task.fence
        is_running = task.status in LEASED
        if is_running and fence == task.fence and task.node != self._message.node:
            return Refusal(task.id, "not-runner", f"another node runs task {task.id}", (), task)
        if isinstance(change, TaskChange) and (change.fence or is_running):
            return (yield from self._change_task(change, task, fence))
        if not is_running or fence != task.fence:
            text = f"this node does not run task {task.id} under fence {fence} (now {task.fence})"
            return Refusal(task.id, "lease-lost", text, (), task)
        match change:
            case OutputChunk():
                return (yield from self._output(change, task, ends))
            case MetricsChange():
                return self._metrics(change, task)
            case CheckpointChange():
                return (yield from self._checkpoint(change, task))
            case TaskChange():
                raise AssertionError("handled above")

    def _change_task(self, change: TaskChange, task: Task, fence: int) -> Script[Refusal | None]:
        node = self._message.node
        by = Reporter(f"node:{node}", self._batch.now)
        command = command_of(change, task, by)
        if fence != task.fence and fence not in (yield from fences_of(task.id, node)):
            text = f"node '{node}' has not run task {task.id} under fence {fence}"
            return Refusal(task.id, "lease-lost", text, (), task)
        instruction = Instruction(task.id, command, fence=fence, node=node)
        ruling = apply.carry_out(self._work, instruction)
        return ruling if isinstance(ruling, Refusal) else None

    def _output(
        self, change: OutputChunk, task: Task, ends: dict[str, int]
    ) -> Script[Refusal | None]:
        check_choice("stream", change.stream, StreamName)
        if len(change.data) > CHUNK_BYTES_MAX:
            text = f"a chunk has at most {CHUNK_BYTES_MAX} bytes: send several"
            return Refusal(task.id, "too-large", text, (), task)
        stream = Stream(task.id, task.fence, change.stream)
        placed = yield from self._live.output.add(stream, change.start, change.data)
        ends[stream.label] = placed.end
        if placed.outcome is Placement.APPEND:
            node, now = self._message.node, self._batch.now
            self._work.mention([output_event(task, change.stream, placed, now, node=node)])
        template = REFUSED.get(placed.outcome)
        if template is None:
            return None
        detail = template.format(start=change.start, end=placed.end)
        return Refusal(task.id, placed.outcome.value, detail, (), task)

    def _metrics(self, change: MetricsChange, task: Task) -> Refusal | None:
        totals = metrics_of(change)
        if totals:
            node, now = self._message.node, self._batch.now
            self._live.metrics.add(task, node, totals)
            self._work.mention([reported(task, node, task.fence, totals, now)])
        return None

    def _checkpoint(self, change: CheckpointChange, task: Task) -> Script[Refusal | None]:
        data_json = checkpoint_data(change)
        if change.decision is not None:
            data_json = shown_data(data_json, task)
        owner = self._live.owner_of_checkpoint(change.checkpoint_id)
        if owner is not None:
            text = f"checkpoint {change.checkpoint_id} belongs to another task"
            return None if owner == task.id else Refusal(task.id, "conflict", text, (), task)
        point = None
        if change.type != AUTO or change.decision is not None:
            self._live.add_checkpoint(task, change, data_json)
            point = NamedPoint(change.checkpoint_id, change.type, change.note)
        report = Report(checkpoint_json=data_json, point=point)
        ruling = apply.carry_out(self._work, Instruction(task.id, report, fence=task.fence))
        if isinstance(ruling, Refusal) and ruling.code != _SUCCESS:
            return ruling
        if change.decision is not None:
            current = self._work.tasks[task.id]
            return (yield from self._batch.ask_decision(self._work, current, change, data_json))
        return None

    def _shown(self, change: Change, refusal: Refusal, fence: int) -> ChangeRefused:
        task = self._work.tasks.get(refusal.task_id)
        may_see = task is not None and task.project == self._message.project
        seen = task if may_see else None
        return shown(change, self._message, refusal, fence=fence, task=seen)


__all__ = ["AskDecision", "Batch", "Inbound", "MessageAnswer", "apply_messages"]
