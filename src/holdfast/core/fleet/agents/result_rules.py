"""What the end of a run means for its task, and how a late one is kept.

Promises: a result has one meaning, whatever came before it. Only a refusal, and an end that nothing is known
of, allow no further attempt; a task has others only if its command may run twice. Never: I/O, clocks.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from holdfast.core import codec, failure as failures
from holdfast.core.command import Complete, Fail, Release, RunnerCommand, Snooze
from holdfast.core.fleet.agents.facts import Run
from holdfast.core.fleet.agents.wire import AgentResult
from holdfast.core.fleet.model import Execution
from holdfast.core.task import Failure, FailureKind

LATER_SECONDS: Final = 5.0
"""When an offer that an agent does not take now is made again."""
RERUN: Final = "rerun"
NO_START: Final = frozenset({"never_started", "refused"})
"""States of a result that say that nothing has started."""


def command_of(run: Run, result: AgentResult, *, is_later: bool) -> RunnerCommand:
    """What a result means for the task of its run."""
    match result.state:
        case "exited":
            return _exited(run, result)
        case "never_started" if is_later:
            return Snooze(LATER_SECONDS, result.reason)
        case "never_started":
            return Release(result.reason or "the agent has not started it")
        case "refused":
            return _refused(run, result)
        case _:
            reason = result.reason or "the agent does not know how it ended"
            may_rerun = run.job.command.on_restart == RERUN
            lost = _failed(run, result, FailureKind.LOST, reason, final=not may_rerun)
            return replace(lost, failure=failures.after(lost.failure, run.task.failure))


def _exited(run: Run, result: AgentResult) -> RunnerCommand:
    if result.timed_out:
        seconds = run.job.command.exec_timeout_seconds
        message = f"it ran longer than {seconds:g} s and was ended"
        return _failed(run, result, FailureKind.TIMEOUT, message)
    if result.exit_code in run.job.command.ok_codes and not result.killed:
        return Complete(codec.dumps({"exit_code": result.exit_code}), result.seconds)
    how = (
        f"signal {result.signal}" if result.signal is not None else f"exit code {result.exit_code}"
    )
    why = f": {result.reason}" if result.reason else ""
    return _failed(run, result, FailureKind.ERROR, f"it ended with {how}{why}")


def _refused(run: Run, result: AgentResult) -> Fail:
    """The agent will never run it. A command that has run in an earlier attempt ends as that one did."""
    reason = result.reason or "the agent gave no reason"
    before = run.task.failure
    if before is None:
        return _failed(run, result, FailureKind.REJECTED, reason, final=True)
    message = f"{before.message}; it was not tried again: refused: {reason}"
    return _failed(run, result, before.kind, message, final=True)


def _failed(
    run: Run, result: AgentResult, kind: FailureKind, message: str, *, final: bool = False
) -> Fail:
    return Fail(failures.plain(run.task.type, kind, message), result.seconds, final)


def with_outcome(execution: Execution, result: AgentResult, failure: Failure | None) -> Execution:
    """The execution of a task that the result has ended, with the failure of the task."""
    is_refused = failure is not None and failure.kind is FailureKind.REJECTED
    outcome = "refused" if is_refused else None
    return replace(execution, outcome=outcome, exit_code=result.exit_code, signal=result.signal)


def late_json(result: AgentResult, now: float) -> str:
    """A result as evidence beside the status."""
    fields = ("state", "token", "exit_code", "signal", "timed_out", "killed", "seconds", "reason")
    return codec.dumps({name: getattr(result, name) for name in fields} | {"at": now})
