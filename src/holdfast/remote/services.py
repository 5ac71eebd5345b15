"""What a handler's context asks of the gateway. Implements `engine.context.Services`.

Promises: a write waits out an interruption of the link, an outage of the database behind it, and a row that
another transaction holds, so that none of them costs an attempt. Only a refusal of the run ends the run; a
refusal of a value is raised as the error that it is. A step of `once` is fenced by the run of its task.
Never: takes a caller's transaction: there is no database here.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain, repeat
from typing import Any, Final

import msgspec

from holdfast.client.problems import problem
from holdfast.clock import Clock
from holdfast.core.command import Instruction, Report
from holdfast.core.decide import Refusal, Ruling
from holdfast.core.decision import Decision, Question
from holdfast.core.ids import Ids
from holdfast.core.keywords import TaskRequest
from holdfast.core.ledger import EntryLease, EntryRequest, EntryVerdict, Outcome, Runner
from holdfast.core.ledger_wire import decode_verdict
from holdfast.core.task import RunId, Task
from holdfast.core.transition import HELD
from holdfast.core.worker.wire import ChangeRefused
from holdfast.engine.follow_ups import NO_FOLLOW_UPS, FollowUps
from holdfast.engine.handle import Source, TaskHandle
from holdfast.engine.loop import OUTAGE_SECONDS
from holdfast.engine.owned_runs import OwnedRuns
from holdfast.errors import LeaseLost, NotSupported, StoreUnavailable
from holdfast.remote.link import Link
from holdfast.remote.outbox import Fate
from holdfast.remote.outcomes import RemoteOutcomes, report_change
from holdfast.store.decisions import Asked

NO_TX: Final = (
    "this worker has no database, so a step cannot be part of a transaction (ctx.once with tx): leave tx out "
    "and pass lease.id to the outside system, or run this task on a worker with the database"
)

RUN_ENDED: Final = frozenset({"lease-lost", "not-runner", "not-found", "illegal-transition"})
"""Refusals of a report that mean: this runner does not have the task any more."""


class RemoteServices:
    """One for each remote engine."""

    def __init__(
        self,
        link: Link,
        outcomes: RemoteOutcomes,
        ids: Ids,
        clock: Clock,
        *,
        runs: Callable[[], OwnedRuns],
        on_refused: Callable[[], None],
        follow_ups: FollowUps = NO_FOLLOW_UPS,
    ) -> None:
        self._follow_ups = follow_ups
        self._link = link
        self._outcomes = outcomes
        self._ids = ids
        self._clock = clock
        self._runs = runs
        self._on_refused = on_refused

    async def report(self, instruction: Instruction) -> Ruling:
        assert isinstance(instruction.command, Report)
        run = RunId(instruction.task_id, instruction.fence or 0)
        owned = self._runs().by_id.get(run)
        if owned is None or self._link.has_failed:
            return _lost(run)
        fate = await self._fate(instruction, instruction.command)
        if isinstance(fate, ChangeRefused) and fate.code not in RUN_ENDED:
            raise problem(400, {"code": fate.code, "detail": fate.detail})
        return self._outcomes.ruling(owned.current, instruction, fate)

    async def _fate(self, instruction: Instruction, report: Report) -> Fate:
        """What became of a report. It is sent again while another transaction holds the task."""
        for pause in chain(OUTAGE_SECONDS, repeat(OUTAGE_SECONDS[-1])):
            change = report_change(instruction, report, self._ids)
            fate = (await self._link.report([change]))[0]
            if not isinstance(fate, ChangeRefused) or fate.code != HELD:
                return fate
            await self._clock.sleep(pause)
        raise AssertionError("unreachable")

    def new_id(self) -> str:
        return self._ids.task(self._clock.now()).replace("-", "")

    def holds_up(self, tx: object) -> bool:
        return False

    async def parents(self, task_id: str) -> dict[str, Task]:
        rows = await self._call("parents", self._run_of(task_id))
        tasks = msgspec.convert(rows, list[Task])
        return {task.id: task for task in tasks}

    async def begin_step(self, request: EntryRequest, tx: object) -> EntryVerdict:
        _refuse_tx(tx)
        value = await self._call(
            "begin_step", _run(request.runner), request=msgspec.to_builtins(request)
        )
        return decode_verdict(value)

    async def end_step(self, lease: EntryLease, outcome: Outcome | None, tx: object) -> None:
        _refuse_tx(tx)
        await self._call(
            "end_step",
            _run(lease.runner),
            lease=msgspec.to_builtins(lease),
            outcome=None if outcome is None else msgspec.to_builtins(outcome),
        )

    async def ask(self, task: Task, question: Question) -> Decision | Asked | Refusal:
        """Asks a person. The gateway pauses the task, unless the question was answered before."""
        run = RunId(task.id, task.fence)
        try:
            answer = await self._outlast("ask", run, question=msgspec.to_builtins(question))
        except LeaseLost as error:
            return Refusal(task.id, "lease-lost", str(error), (), None)
        match answer["kind"]:
            case "asked":
                return Asked(msgspec.convert(answer["decision"], Decision))
            case "decided":
                return msgspec.convert(answer["decision"], Decision)
            case _:
                return Refusal(task.id, answer["code"], answer["message"], (), None)

    async def enqueue(self, request: TaskRequest[Any]) -> TaskHandle[Any]:
        if request.get("id") is None and request.get("idempotency_key") is None:
            # Named here: a repeat after an outage finds the task of a request whose answer was lost.
            request = TaskRequest({**request, "id": self._ids.task(self._clock.now())})
        for pause in chain(OUTAGE_SECONDS, repeat(OUTAGE_SECONDS[-1])):
            try:
                return await self._follow_ups.enqueue(request)
            except StoreUnavailable:
                if self._link.has_failed:
                    raise
            await self._clock.sleep(pause)
        raise AssertionError("unreachable")

    @property
    def source(self) -> Source:
        return self._follow_ups.source

    async def _call(self, verb: str, run: RunId, **arguments: object) -> Any:
        try:
            return await self._outlast(verb, run, **arguments)
        except LeaseLost:
            self._on_refused()
            raise

    async def _outlast(self, verb: str, run: RunId, **arguments: object) -> Any:
        """Repeats a call while the database behind the gateway does not answer it."""
        for pause in chain(OUTAGE_SECONDS, repeat(OUTAGE_SECONDS[-1])):
            try:
                return await self._link.call(verb, run, **arguments)
            except StoreUnavailable:
                if self._link.has_failed:
                    raise
            await self._clock.sleep(pause)
        raise AssertionError("unreachable")

    def _run_of(self, task_id: str) -> RunId:
        for run in self._runs().by_id:
            if run.task_id == task_id:
                return run
        raise LeaseLost(f"task {task_id} was taken away from this runner: stop working on it")


def _run(runner: Runner | None) -> RunId:
    assert runner is not None, "a step belongs to a run"
    return RunId(runner.task_id, runner.fence)


def _refuse_tx(tx: object) -> None:
    if tx is not None:
        raise NotSupported(NO_TX)


def _lost(run: RunId) -> Refusal:
    text = f"task {run.task_id} was taken away from this runner (its fence is {run.fence})"
    return Refusal(run.task_id, "lease-lost", text, (), None)
