"""The context of a handler.

Promises: progress, checkpoints and steps are fenced. Once the lease is lost, every call raises LeaseLost
and `cancel_requested` is true. Outside systems may compare `fence`. A step that has ended is answered,
not repeated, in this attempt and in every later one.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, ParamSpec, Protocol, TypeVar, Unpack, overload

from msgspec import UNSET

from holdfast.core import codec, once as once_flow
from holdfast.core.callables import answer_of
from holdfast.core.check import (
    check_callable,
    check_name,
    check_number,
    check_text,
    check_whole,
)
from holdfast.core.command import POINT_PREFIX, Instruction, Report, named_point
from holdfast.core.decide import Refusal, Ruling, applied
from holdfast.core.decision import Decision, DecisionState, Question, make_question
from holdfast.core.keywords import EnqueueKeywords, TaskRequest
from holdfast.core.ledger import (
    EntryLease,
    EntryRequest,
    EntryVerdict,
    Outcome,
    Runner,
    fingerprint_of,
    step_key,
)
from holdfast.core.once import BeginStep, EndStep, ErrorPolicy, OnError, RunStep, Step
from holdfast.core.output import StreamName
from holdfast.core.steps import adrive, settled
from holdfast.core.submit import PAYLOAD_BYTES_MAX, encode_payload
from holdfast.core.task import Task
from holdfast.core.totals import check_totals
from holdfast.core.wire import WHOLE_MAX
from holdfast.core.worker.changes import PHASE_CHARS_MAX
from holdfast.engine import outcome_log
from holdfast.engine.follow_ups import Requestable, request_of
from holdfast.engine.handle import Source, TaskHandle
from holdfast.engine.output_writer import OutputWriter
from holdfast.engine.worker_hooks import WorkerState
from holdfast.errors import DecisionExpired, InvalidInput, LeaseLost
from holdfast.store.decisions import Asked
from holdfast.store.uncancelled import UncancelledWrites
from holdfast.tracing import TraceContext

P = ParamSpec("P")
R = TypeVar("R")
PROGRESS_BYTES_MAX = 4_096
POSITION_MARK = "#"
"""The first character of keys that name a question by its position."""


def progress_text(done: float, note: str, phase: str | None, iteration: int | None) -> str:
    """What a report of progress says, as JSON."""
    value: dict[str, object] = {"done": check_number("progress", done, most=1.0)}
    value["note"] = check_text("note", note)  # an empty one removes the note of the call before
    if phase is not None:
        value["phase"] = check_text("phase", phase, most=PHASE_CHARS_MAX)
    if iteration is not None:
        value["iteration"] = check_whole("iteration", iteration, least=0, most=WHOLE_MAX)
    return encode_payload(value, what="progress", limit=PROGRESS_BYTES_MAX)


class Services(Protocol):
    """The services of the engine that a context uses."""

    async def report(self, instruction: Instruction) -> Ruling: ...

    def new_id(self) -> str:
        """An id that no other object has."""
        ...

    def holds_up(self, tx: object) -> bool:
        """Whether all other writes wait for the open transaction of this connection."""
        ...

    async def parents(self, task_id: str) -> dict[str, Task]: ...

    async def begin_step(self, request: EntryRequest, tx: object) -> EntryVerdict: ...

    async def end_step(self, lease: EntryLease, outcome: Outcome | None, tx: object) -> None: ...

    async def ask(self, task: Task, question: Question) -> Decision | Asked | Refusal: ...

    async def enqueue(self, request: TaskRequest[Any]) -> TaskHandle[Any]: ...

    @property
    def source(self) -> Source:
        """Reads tasks and waits for them."""
        ...


class Suspended(BaseException):
    """Unwinds a handler whose task waits for a decision. It is no Exception, so that a handler which catches
    all of those still ends; one that catches this ends without effect, because the run has ended."""


class Context:
    """What a handler in the event loop knows about its run, and may do in it."""

    __slots__ = (
        "_cancelled",
        "_carrier",
        "_output",
        "_questions",
        "_services",
        "_steps",
        "is_suspended",
        "state",
        "task",
        "trace",
    )

    def __init__(self, task: Task, services: Services, state: WorkerState | None = None) -> None:
        self.task = task
        """The task as it was claimed for this attempt."""
        self.state = WorkerState() if state is None else state
        """What the start hooks of the worker gave, by class: `ctx.state[Database]`."""
        self._services = services
        self._steps = 0
        self._questions = 0
        self.is_suspended = False
        """Whether the run has ended because the task waits for a decision."""
        self.trace: TraceContext | None = None
        """The span of this run, for a handler in a process."""
        self._output: OutputWriter | None = None
        self._cancelled: threading.Event | None = None
        self._carrier: object = None
        """The handler's connection of the latest step with `tx`."""

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1. A snoozed or lost run is not counted."""
        return self.task.attempts

    @property
    def fence(self) -> int:
        """Rises with every claim of this task."""
        return self.task.fence

    @property
    def saved(self) -> codec.Json:
        """The latest checkpoint, perhaps of an earlier attempt."""
        return self.task.checkpoint

    @property
    def cancel_requested(self) -> bool:
        """Whether to stop: the task was aborted, paused, timed out or taken over."""
        return self._cancelled is not None and self._cancelled.is_set()

    def request_cancel(self) -> None:
        """Called by the engine. The handler's thread sees it at once."""
        if self._cancelled is None:
            self._cancelled = threading.Event()
        self._cancelled.set()

    async def progress(
        self, done: float, note: str = "", *, phase: str | None = None, iteration: int | None = None
    ) -> None:
        """Reports the progress, from 0 to 1, as an event. `phase`, e.g. "test", and `iteration`, a number,
        hold until a later call of this attempt gives others; an empty phase removes it."""
        text = progress_text(done, note, phase, iteration)
        await self._report(Report(progress_json=text, merge=True))

    async def output(self, data: str | bytes, stream: str = StreamName.STDOUT) -> None:
        """Appends text or bytes to a stream of this attempt: "stdout", "stderr" or "log". They are durable
        when this returns, and readers of the task see them while it runs. Of a long stream the first 256 KiB
        and the last 768 KiB are kept. A call takes up to 1 MiB, and each 32 KiB are a transaction: collect
        small pieces."""
        if self._output is None:
            self._output = OutputWriter(self._report)
        await self._output.write(stream, data)

    async def metrics(self, **totals: float) -> None:
        """Reports totals of this attempt, e.g. `tokens_used=1200, cost=0.03`. They only rise; those of
        several attempts add up."""
        if checked := check_totals(totals):
            await self._report(Report(totals=checked))

    async def save(self, checkpoint: object) -> None:
        """Saves a checkpoint for the next attempt. It is durable when this returns."""
        text = encode_payload(checkpoint, what="checkpoint", limit=PAYLOAD_BYTES_MAX)
        await self._report(Report(checkpoint_json=text))

    async def checkpoint(self, type: str, data: object = None, note: str = "") -> str:
        """Saves a checkpoint under a name, e.g. "plan-ready", and returns its id. It is durable when this
        returns. From then on `saved` is its data. The last 20 of a task are listed by the API."""
        point = named_point(POINT_PREFIX + self._services.new_id(), type, note)
        text = encode_payload(data, what="checkpoint", limit=PAYLOAD_BYTES_MAX)
        await self._report(Report(checkpoint_json=text, point=point))
        return point.id

    async def decide(
        self,
        question: str,
        *,
        options: Sequence[str] = (),
        key: str | None = None,
        deadline: float | None = None,
        default: object = UNSET,
        assignees: Sequence[str] = (),
        schema: dict[str, Any] | None = None,
        data: object = None,
    ) -> Decision:
        """Asks a person and returns the answer, in `choice`. The first call ends this run and gives its
        worker back; the handler runs again from its top when the answer is there, on any node, and then the
        same call returns it. Work before it belongs into `once`, or behind a saved checkpoint.

        `options`: the choices; or `schema`, a JSON schema of the choice. `key` names the question within the
        task; by default its position among the calls. `deadline`: seconds until `default` counts as the
        choice, or DecisionExpired is raised if there is none. `assignees`: who may answer, `user:NAME` or
        `role:NAME`. `data` is shown with the question; without it, what the task saved last is."""
        made = self._question(
            key,
            question,
            options=options,
            deadline=deadline,
            default=default,
            assignees=assignees,
            schema=schema,
            data=data,
        )
        self._check_held()
        self._check_carrier()
        task = self.task
        answer = settled(await UncancelledWrites().finish(lambda: self._services.ask(task, made)))
        match answer:
            case Asked():
                self.is_suspended = True
                self.request_cancel()
                raise Suspended
            case Refusal():
                self._refused("decide", answer.message)
                raise LeaseLost(answer.message)
        assert isinstance(answer, Decision)
        if answer.state is not DecisionState.DECIDED:
            raise DecisionExpired(
                f"the decision {made.key!r} of task {task.id} has expired: its deadline passed without "
                "an answer, and it has no default"
            )
        return answer

    def _question(self, key: str | None, question: str, **fields: Any) -> Question:
        """A checked question, named by its position unless it has a key."""
        self._questions += 1
        if key is not None and check_name("key", key).startswith(POSITION_MARK):
            raise InvalidInput(f"key {key!r} starts with {POSITION_MARK}, which names positions")
        name = f"{POSITION_MARK}{self._questions}" if key is None else key
        return make_question(question, key=name, **fields)

    async def parents(self) -> dict[str, Task]:
        """The tasks that this one depended on, by id, with their results. They are in the order of their ids:
        generated ids are in the order of their enqueue."""
        return await self._services.parents(self.task.id)

    @overload
    async def enqueue(
        self, task: str, payload: object = None, /, **options: Unpack[EnqueueKeywords]
    ) -> TaskHandle[Any]: ...
    @overload
    async def enqueue(
        self, task: Requestable[P, R], /, *args: P.args, **kwargs: P.kwargs
    ) -> TaskHandle[R]: ...
    async def enqueue(self, task: object, /, *args: Any, **kwargs: Any) -> TaskHandle[Any]:
        """Enqueues another task into the store of this one: `ctx.enqueue(send, "ann")` for
        `send.enqueue("ann")`, `ctx.enqueue(send.options(delay=5), "ann")`, or by name
        `ctx.enqueue("send", {"to": "ann"}, delay=5)`. It waits out an outage of the store, and works while
        the worker stops. A second attempt of this task enqueues again: give an `idempotency_key`, or call it
        in `once`."""
        request = request_of(task, args, kwargs)
        self._check_held()
        if request.get("tx") is None:
            self._check_carrier()
        return await self._services.enqueue(request)

    @property
    def source(self) -> Source:
        """Reads other tasks, for a handler in a process."""
        return self._services.source

    async def once(
        self,
        step: str,
        effect: Callable[[EntryLease], Awaitable[object]],
        *,
        request: object = None,
        on_error: ErrorPolicy = OnError.FORGET,
        tx: object = None,
    ) -> codec.Json:
        """Runs the effect of a step of this task once. Later calls get the stored answer, also in later
        attempts. `tx`: your connection with an open transaction, through which the effect writes. The
        step is then done if and only if that transaction commits. Without `tx`, pass `lease.id` to the
        outside system, or ask it by that id when `lease.attempt` is above 1 (docs/howto/idempotency.md).
        `request` guards against a step that was used with another meaning. A plain effect blocks the event
        loop while it runs; its value is the answer."""
        check_callable("effect", effect)
        entry_request = self.step_request(step, request)

        async def perform(part: Step) -> object:
            if isinstance(part, RunStep):
                return await answer_of(effect(part.lease))
            return await self.do_step(entry_request, part, tx)

        return await adrive(once_flow.call(on_error=on_error, in_tx=tx is not None), perform)

    def step_request(self, step: str, request: object) -> EntryRequest:
        """The request for the entry of a step. The run of the task holds the step, so it needs no lease."""
        task = self.task
        self._steps += 1
        return EntryRequest(
            entry_key=step_key(task.id, step),
            fingerprint=fingerprint_of(request),
            owner=f"{task.node} with fence {task.fence}#{self._steps}",
            lease_seconds=0.0,
            retention_seconds=None,
            runner=Runner(task.id, task.fence),
        )

    async def do_step(self, request: EntryRequest, step: Step, tx: object) -> object:
        """Performs any part of a step except its effect."""
        try:
            match step:
                case BeginStep():
                    self._check_held()
                    if tx is not None:
                        self._carrier = tx
                    else:
                        self._check_carrier()
                    return await self._finish(lambda: self._services.begin_step(request, tx), tx)
                case EndStep(lease=lease, outcome=outcome):
                    return await self._finish(
                        lambda: self._services.end_step(lease, outcome, tx), tx
                    )
        except LeaseLost as error:
            self._refused("once", str(error))
            raise
        return None

    async def _finish(self, make: Callable[[], Coroutine[Any, Any, object]], tx: object) -> object:
        """Waits for the answer even when the handler is cancelled, unless the write is in the handler's own
        transaction: its rollback undoes the write."""
        return await (make() if tx is not None else UncancelledWrites().finish(make))

    def _refused(self, verb: str, message: str) -> None:
        """The store has refused a write, because this run has lost its lease. The first one is logged."""
        if not self.cancel_requested:
            outcome_log.refused_write(self.task, verb, message)
        self.request_cancel()

    def _check_held(self) -> None:
        if self.cancel_requested:
            raise LeaseLost(
                f"task {self.task.id} was taken away from this runner: stop working on it"
            )

    def _check_carrier(self) -> None:
        """On a store with one writer, a write outside the handler's open transaction would be a deadlock."""
        if self._carrier is None or not self._services.holds_up(self._carrier):
            return
        raise InvalidInput(
            f"a step of task {self.task.id} is in a transaction that is still open, and this database has "
            "one writer: commit that transaction before you report, save or begin another step without it"
        )

    async def _report(self, report: Report) -> None:
        self._check_held()
        self._check_carrier()
        ruling = await self._services.report(
            Instruction(self.task.id, report, fence=self.task.fence)
        )
        now = applied(ruling)
        if now is None:
            assert isinstance(ruling, Refusal)
            self._refused("report", ruling.message)
            raise LeaseLost(ruling.message)
        self.task = now
