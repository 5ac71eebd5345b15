"""What a handler's context asks of the gateway. Implements `engine.context.Services`.

Promises: a write waits out an interruption of the link, so that one costs no attempt. A step of `once` is
fenced by the run of its task. Never: takes a caller's transaction: there is no database here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from holdfast.core.command import Instruction, Report
from holdfast.core.decide import Refusal, Ruling
from holdfast.core.decision import Decision, Question
from holdfast.core.ids import Ids
from holdfast.core.ledger import EntryLease, EntryRequest, EntryVerdict, Outcome, Runner
from holdfast.core.ledger_wire import decode_verdict
from holdfast.core.task import RunId, Task
from holdfast.engine.owned_runs import OwnedRuns
from holdfast.errors import LeaseLost, NotSupported
from holdfast.remote.link import Link
from holdfast.remote.outbox import Unknown
from holdfast.remote.outcomes import RemoteOutcomes, report_change
from holdfast.store.decisions import Asked

NO_TX: Final = (
    "this worker has no database, so a step cannot be part of a transaction (ctx.once with tx): leave tx out "
    "and pass lease.id to the outside system, or run this task on a worker with the database"
)


class RemoteServices:
    """One for each remote engine."""

    def __init__(
        self,
        link: Link,
        outcomes: RemoteOutcomes,
        ids: Ids,
        runs: Callable[[], OwnedRuns],
        on_refused: Callable[[], None],
    ) -> None:
        self._link = link
        self._outcomes = outcomes
        self._ids = ids
        self._runs = runs
        self._on_refused = on_refused

    async def report(self, instruction: Instruction) -> Ruling:
        assert isinstance(instruction.command, Report)
        run = RunId(instruction.task_id, instruction.fence or 0)
        owned = self._runs().by_id.get(run)
        if owned is None or self._link.has_failed:
            return _lost(run)
        change = report_change(instruction, instruction.command, self._ids)
        fate = (await self._link.report([change]))[0]
        if isinstance(fate, Unknown) and self._runs().by_id.get(run) is owned:
            # The run was not among those that the gateway called lost, so the change was applied.
            fate = None
        return self._outcomes.ruling(owned.current, instruction, fate)

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
            answer = await self._link.call("ask", run, question=msgspec.to_builtins(question))
        except LeaseLost as error:
            return Refusal(task.id, "lease-lost", str(error), (), None)
        match answer["kind"]:
            case "asked":
                return Asked(msgspec.convert(answer["decision"], Decision))
            case "decided":
                return msgspec.convert(answer["decision"], Decision)
            case _:
                return Refusal(task.id, answer["code"], answer["message"], (), None)

    async def _call(self, verb: str, run: RunId, **arguments: object) -> Any:
        try:
            return await self._link.call(verb, run, **arguments)
        except LeaseLost:
            self._on_refused()
            raise

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
