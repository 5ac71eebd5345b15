"""What operators may do to a task that is pinned to its node: an execution of the fleet.

Before its go nothing has started, so it is handled as other tasks are. After the go the command runs on that
host, and only an abort or a forced status count. `decide` asks `refusal` for every command of an operator, so
no transport gets around it. Promises: no command of an operator starts an execution that its job has not
admitted, moves it to another host, changes what was approved, or repeats a command that may have run.
Never: I/O, clocks.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from holdfast.core import command as c
from holdfast.core.start_once import BEFORE_GO, phase_of
from holdfast.core.task import ENDED, LEASED, Status, Task
from holdfast.core.transition import Refusal, refuse

CODE: Final = "illegal-transition"
RETRY_JOB: Final = "retry the job: that makes a new job for the hosts that failed"
NOT_ELSEWHERE: Final = f"it is for its host only; {RETRY_JOB}"
AS_APPROVED: Final = "its command is part of its job and was approved as it is: make another job"
NOT_ADMITTED: Final = "the rollout of its job admits it: promote or resume the job"
OUTCOME_KEPT: Final = "its outcome is part of the record of its job"


class PinnedStage(StrEnum):
    """How far a pinned task has come, as far as operators are concerned."""

    NOT_ADMITTED = "not_admitted"
    BEFORE_GO = "before_go"
    AFTER_GO = "after_go"
    ENDED = "ended"


def stage_of(task: Task) -> PinnedStage:
    if task.status in ENDED:
        return PinnedStage.ENDED
    if task.status is Status.BLOCKED:
        return PinnedStage.NOT_ADMITTED
    if task.status in LEASED and phase_of(task) not in BEFORE_GO:
        return PinnedStage.AFTER_GO
    return PinnedStage.BEFORE_GO


def refusal(task: Task, command: c.Command) -> Refusal | None:
    """Why the command does not count for this task. None: it is handled as for other tasks."""
    reason = _reason(task, command, stage_of(task))
    return None if reason is None else refuse(task, CODE, reason)


def _reason(task: Task, command: c.Command, stage: PinnedStage) -> str | None:
    match command:
        case c.Reassign():
            return NOT_ELSEWHERE
        case c.Edit():
            return AS_APPROVED
        case c.Replay():
            return RETRY_JOB
        case c.RetryTask() if command.payload_json is not None:
            return AS_APPROVED
        case c.Force():
            return _forced(command, stage)
        case c.Abort() if stage is PinnedStage.ENDED:
            return OUTCOME_KEPT
        case c.RetryTask() | c.Resume() | c.Pause() | c.Unlock() if stage is PinnedStage.ENDED:
            return RETRY_JOB
        case c.Pause() | c.Resume() | c.RetryTask() | c.Unlock() if stage is PinnedStage.AFTER_GO:
            return (
                f"its command has got the go and may run on {task.node}: only an abort or a forced status "
                f"counts now; after its end {RETRY_JOB}"
            )
        case _:
            return None


def _forced(command: c.Force, stage: PinnedStage) -> str | None:
    if command.status not in (Status.QUEUED, Status.PAUSED):
        return None
    match stage:
        case PinnedStage.NOT_ADMITTED:
            return NOT_ADMITTED
        case PinnedStage.AFTER_GO:
            return f"its command has got the go and may run: it cannot be {command.status} again"
        case PinnedStage.ENDED:
            return RETRY_JOB
        case _:
            return None


OPERATOR_COMMANDS: Final = frozenset(
    {c.Abort, c.Pause, c.Resume, c.RetryTask, c.Replay, c.Edit, c.Reassign, c.Unlock, c.Force}
)
