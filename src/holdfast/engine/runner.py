"""Runs the handler of a claimed task, and turns its end into a command.

Promises: every outcome of a handler becomes one command; a timeout ends the attempt in all three kinds of
isolation; an exception of a handler does not end its worker. Never: touches the store.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final

from msgspec.structs import replace

from holdfast.clock import Clock
from holdfast.core import capacity, failure as failures
from holdfast.core.command import Cancel, Complete, Fail, Release, RunnerCommand, Snooze
from holdfast.core.submit import RESULT_BYTES_MAX, encode_payload
from holdfast.core.task import FailureKind, Task, timeout_of
from holdfast.core.text import lines
from holdfast.engine.arguments import ArgumentsRefused
from holdfast.engine.around import through
from holdfast.engine.context import Context, Services
from holdfast.engine.deadlines import Deadlines
from holdfast.engine.declared import Misfit
from holdfast.engine.execute import Executor, invoke
from holdfast.engine.handlers import IN_LOOP, IN_THREAD, Handler, Handlers, Reject
from holdfast.engine.loop import log
from holdfast.engine.owned_run import LOST, TIMEOUT, OwnedRun
from holdfast.engine.process import ProcessDied, Remote, ResultRefused
from holdfast.engine.retry_choice import Retry, after_failure
from holdfast.engine.worker_hooks import WorkerState
from holdfast.errors import DecisionExpired, HoldfastError, LeaseLost
from holdfast.tracing import CURRENT

SNOOZE_SECONDS_MAX: Final = 366 * 86_400.0
_NO_PAUSE: Final = "the retry_delay of type '%s' did not give a pause, so the usual one holds: %s"


class TaskRunner:
    """One for each engine. All workers share it."""

    def __init__(
        self,
        clock: Clock,
        handlers: Handlers,
        executor: Executor,
        services: Services,
        state: WorkerState,
        *,
        default_timeout: float | None,
    ) -> None:
        self._monotonic = clock.monotonic
        self._handlers = handlers
        self._executor = executor
        self._services = services
        self._state = state
        self._default_timeout = default_timeout
        self.mean_seconds = 0.0
        """The mean duration of the last runs."""
        self.deadlines: Deadlines[OwnedRun] = Deadlines(
            lambda owned: owned.cancel(TIMEOUT, clock.monotonic()), clock.monotonic
        )

    async def run(self, owned: OwnedRun) -> RunnerCommand | None:
        """Runs the handler. Returns the outcome, or None when the process does not own the run any more."""
        task = owned.task
        handler = self._handlers.get(task.type)
        if handler is None:
            message = f"no handler for '{task.type}' in this process"
            return Fail(failures.plain(task.type, FailureKind.ERROR, message))
        if handler.isolation is IN_THREAD and not self._executor.has_threads:
            return Release("too many threads of this process do not return")
        # Hundreds of ended runs wait for their commit, and the collector of garbage visits what they keep.
        is_bare = handler.isolation is IN_LOOP and not self._handlers.around.in_loop
        context = (
            Context(task, self._services, self._state)
            if handler.takes_context or not is_bare
            else None
        )
        owned.context = context
        options = task.options
        CURRENT.set(options.trace)  # Tasks that the handler enqueues go on with its trace.
        timeout = timeout_of(options, self._default_timeout)
        if timeout is not None:
            self.deadlines.add(owned, timeout)
        owned.started_at = started_at = self._monotonic()
        command: RunnerCommand | None
        try:
            if is_bare or context is None:
                value = await invoke(handler, task, context)
            else:
                call = partial(self._call, handler, context)
                value = await through(self._handlers.around.in_loop, context, call)
            command = _outcome(handler, task, value, self._monotonic() - started_at)
            is_suspended = context is not None and context.is_suspended
            owned.cancelled = owned.cancelled or (LOST if is_suspended else None)
        except asyncio.CancelledError as error:
            if owned.cancelled is None and _is_cancelled():
                raise
            # The handler awaited a task that it had cancelled itself: a failure of the handler.
            command = Fail(failures.from_exception(task.type, error))
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            if _has_ended(context, error):
                command, owned.cancelled = None, owned.cancelled or LOST
            else:
                command = _failed(handler, task, error, self._monotonic() - started_at)
        finally:
            if timeout is not None:
                self.deadlines.remove(owned)
        if owned.cancelled is not None:
            # The run counts as cancelled, whatever the handler returned or raised.
            owned.go_on()
            is_timeout = owned.cancelled == TIMEOUT and not owned.is_given_up
            return self.timed_out(task) if is_timeout else None
        self.mean_seconds = capacity.smoothed(self.mean_seconds, self._monotonic() - started_at)
        return command

    async def _call(self, handler: Handler, context: Context) -> object:
        """Calls the handler itself."""
        if handler.isolation is IN_LOOP:
            return await invoke(handler, context.task, context)
        return await self._executor.call(handler, context, self._handlers.around)

    def timed_out(self, task: Task) -> Fail | None:
        """The command of an attempt that timed out. None if the task has no timeout."""
        seconds = timeout_of(task.options, self._default_timeout)
        if not seconds:
            return None
        message = f"it ran longer than its timeout of {seconds:g} s"
        return Fail(failures.plain(task.type, FailureKind.TIMEOUT, message), seconds)


def _has_ended(context: Context | None, error: BaseException) -> bool:
    """Whether the run is over: its task waits for a decision, or has lost its lease. The lease of a lock or a
    ledger entry is the handler's error."""
    if context is None:
        return False
    return context.is_suspended or (isinstance(error, LeaseLost) and context.cancel_requested)


def _outcome(handler: Handler, task: Task, value: object, duration: float) -> RunnerCommand:
    """The command of a handler that has returned."""
    if value is None:
        return Complete("null", duration)
    if type(value) is Cancel:
        return Cancel(_reason(value.reason))
    if type(value) is Snooze:
        delay = min(max(0.0, float(value.delay_seconds)), SNOOZE_SECONDS_MAX)
        return Snooze(delay, _reason(value.reason))
    if isinstance(value, Retry):
        return _failed(handler, task, value, duration)
    try:
        if handler.result is not None:
            value = handler.result.write_any(value)
        return Complete(encode_payload(value, what="result", limit=RESULT_BYTES_MAX), duration)
    except (HoldfastError, Misfit) as error:
        # The work is done. Another attempt would repeat it and get the same error.
        return Fail(failures.from_exception("result", error, traceback=""), duration, final=True)


def _failed(handler: Handler, task: Task, error: BaseException, duration: float) -> Fail:
    """The command of a handler that has raised an exception, also one that cannot be described."""
    try:
        command = _described(task, error, duration)
        if command.final or isinstance(error, ProcessDied):
            return command
        if isinstance(error, Remote):
            then = error.then
        else:
            then = after_failure(handler.retries, task.attempts, error)
        if then.problem:
            log.error(_NO_PAUSE, task.type, then.problem)
        return replace(command, final=then.gives_up, retry_after_seconds=then.pause_seconds)
    except Exception as second:
        return Fail(failures.from_exception(task.type, second), duration)


def _described(task: Task, error: BaseException, duration: float) -> Fail:
    match error:
        case Reject():
            failure = failures.from_exception(task.type, error, kind=FailureKind.REJECTED)
            return Fail(failure, duration, final=True)
        case ArgumentsRefused():
            failure = failures.from_exception(task.type, error, traceback="")
            return Fail(failure, duration, final=True)
        case ResultRefused():
            # The work is done. Another attempt would repeat it and get the same error.
            failure = failures.from_exception("result", error, traceback="")
            return Fail(failure, duration, final=True)
        case DecisionExpired():
            # It is the kept answer: another attempt would get it again.
            return Fail(failures.from_exception(task.type, error), duration, final=True)
        case ProcessDied():
            return Fail(failures.plain(task.type, FailureKind.LOST, str(error)), duration)
        case Remote():
            return Fail(
                failures.from_exception(task.type, error, traceback=error.traceback), duration
            )
        case Retry():
            return Fail(failures.from_exception(task.type, error.evidence), duration)
        case _:
            return Fail(failures.from_exception(task.type, error), duration)


def _reason(reason: object) -> str:
    """The reason of a handler as text that every store and gateway accepts."""
    return lines(failures.storable(str(reason)))[: failures.MESSAGE_CHARS_MAX]


def _is_cancelled() -> bool:
    current = asyncio.current_task()
    return current is not None and current.cancelling() > 0
