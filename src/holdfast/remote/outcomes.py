"""Outcomes and reports of runs as changes of worker sync, and the gateway's answers as rulings.

Promises: an outcome that the gateway applied is ruled as `core.decide` rules it, so that a remote engine
counts, logs and announces like one with a database. A refusal keeps its code. An outcome that the gateway
cannot store makes its task a dead letter, as it does with a database.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, assert_never

from holdfast.clock import Clock
from holdfast.core import codec, failure as failures
from holdfast.core.command import (
    AUTO,
    Cancel,
    Complete,
    Fail,
    GetStuck,
    Instruction,
    NamedPoint,
    Release,
    Report,
    RunnerCommand,
    Snooze,
    Suspend,
)
from holdfast.core.decide import Refusal, Ruling, decide
from holdfast.core.errors import GatewayUnavailable
from holdfast.core.ids import Ids
from holdfast.core.task import Failure, FailureKind, Task
from holdfast.core.worker.wire import (
    Change,
    ChangeRefused,
    CheckpointChange,
    FailureReport,
    MetricsChange,
    OutputChunk,
    TaskChange,
)
from holdfast.remote.link import Link
from holdfast.remote.outbox import Fate, Unknown

UNSTORABLE: Final = frozenset({"invalid-input", "payload-too-large", "unserialisable-payload"})
"""Refusals of an outcome's value, not of its run."""
ANSWER_LOST: Final = "answer-lost"
GIVE_BACK_SECONDS: Final = 5.0
"""How long a stop waits for a gateway that takes tasks back. Without one their leases expire."""


class RemoteOutcomes:
    """Implements `engine.ports.Outcomes` on a link."""

    def __init__(self, link: Link, clock: Clock) -> None:
        self._link = link
        self._clock = clock

    async def finish(
        self, ended: Sequence[tuple[Task, Instruction]], *, brief: bool = False
    ) -> list[Ruling]:
        """Reports outcomes and waits for their commit. After the end of the link they are refused."""
        if self._link.has_failed:
            text = "this worker was shut out: its outcome is not written"
            return [Refusal(task.id, "lease-lost", text, (), None) for task, _ in ended]
        fates = await self._link.report([outcome_change(task, i) for task, i in ended])
        pairs = list(zip(ended, fates, strict=True))
        unstorable = [
            _dead(task, fate)
            for (task, _), fate in pairs
            if isinstance(fate, ChangeRefused) and fate.code in UNSTORABLE
        ]
        if unstorable:
            await self._link.report(unstorable)
        return [self.ruling(task, instruction, fate) for (task, instruction), fate in pairs]

    async def finish_held(self, ended: Sequence[tuple[Task, Instruction]]) -> list[Ruling]:
        return await self.finish(ended)

    async def give_back(self, instructions: Sequence[Instruction]) -> None:
        """See `engine.ports.GiveBack`. GatewayUnavailable if no gateway answers in time: the changes are sent
        if one is reached before the link is closed."""
        changes = [_change(i.task_id, i.fence or 0, i.command) for i in instructions]  # type: ignore[arg-type]
        try:
            async with asyncio.timeout(GIVE_BACK_SECONDS):
                await self._link.report(changes)
        except TimeoutError:
            raise GatewayUnavailable("no gateway takes the tasks back") from None

    def ruling(self, task: Task, instruction: Instruction, fate: Fate) -> Ruling:
        """What the gateway's answer means for the task."""
        if isinstance(fate, Unknown):
            text = "this incarnation of the worker ended before the gateway answered: read the task"
            return Refusal(task.id, ANSWER_LOST, text, (), None)
        if fate is not None:
            return Refusal(task.id, fate.code, fate.detail, (), None)
        return decide(task, instruction, self._clock.now())


def outcome_change(task: Task, instruction: Instruction) -> TaskChange:
    """The change that stands for the end of a run."""
    return _change(task.id, instruction.fence or task.fence, instruction.command)  # type: ignore[arg-type]


def report_change(instruction: Instruction, report: Report, ids: Ids) -> Change:
    """The change that stands for a report."""
    task_id, fence = instruction.task_id, instruction.fence or 0
    if (part := report.output) is not None:
        return OutputChunk(
            task_id=task_id, fence=fence, stream=part.stream, start=part.start, data=part.data
        )
    if report.totals:
        return MetricsChange(task_id=task_id, fence=fence, other=report.totals)
    if report.checkpoint_json is not None:
        point = report.point or NamedPoint(ids.secret(), AUTO)
        return CheckpointChange(
            task_id=task_id,
            fence=fence,
            checkpoint_id=point.id,
            type=point.type,
            note=point.note,
            data_json=report.checkpoint_json,
        )
    progress = codec.loads_object(report.progress_json or "{}")
    return TaskChange(
        task_id=task_id,
        fence=fence,
        progress=progress.get("done"),
        phase=progress.get("phase"),
        iteration=progress.get("iteration"),
        note=progress.get("note"),
    )


def _change(task_id: str, fence: int, command: RunnerCommand) -> TaskChange:
    match command:
        case Complete():
            return TaskChange(
                task_id=task_id, fence=fence, status="completed", result_json=command.result_json
            )
        case Fail():
            return TaskChange(
                task_id=task_id,
                fence=fence,
                status="failed",
                failure=_failure(command.failure, is_final=command.final),
                delay_ms=_milliseconds(command.retry_after_seconds),
            )
        case Snooze():
            return TaskChange(
                task_id=task_id,
                fence=fence,
                status="queued",
                delay_ms=_milliseconds(command.delay_seconds),
                reason=command.reason,
            )
        case Cancel():
            return TaskChange(task_id=task_id, fence=fence, status="aborted", reason=command.reason)
        case Release():
            return TaskChange(task_id=task_id, fence=fence, status="queued", reason=command.reason)
        case Suspend():
            return TaskChange(task_id=task_id, fence=fence, status="paused", reason=command.reason)
        case GetStuck():
            return TaskChange(task_id=task_id, fence=fence, status="stuck", reason=command.reason)
        case Report():
            raise AssertionError("a report does not end a run")
        case _:
            assert_never(command)


def _milliseconds(seconds: float | None) -> int | None:
    return None if seconds is None else int(seconds * 1000)


def _failure(failure: Failure, *, is_final: bool) -> FailureReport:
    return FailureReport(
        message=failure.message,
        error_type=failure.error_type,
        traceback=failure.traceback,
        kind=failure.kind.value,
        final=is_final,
    )


def _dead(task: Task, refused: ChangeRefused) -> TaskChange:
    """The end of a task whose outcome cannot be stored. Another attempt would get the same error."""
    message = f"its outcome could not be written: {refused.detail}"
    failure = failures.plain(task.type, FailureKind.ERROR, message)
    report = _failure(failure, is_final=True)
    return TaskChange(task_id=task.id, fence=task.fence, status="failed", failure=report)
