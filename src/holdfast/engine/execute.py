"""Runs one handler and returns its outcome as a command.

Promises: every outcome of a handler becomes one command; a timeout ends the attempt in all three kinds of
isolation, and kills a handler process. Never: touches the store.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from typing import Any, Final

from holdfast.core import failure as failures
from holdfast.core.command import Cancel, Complete, Fail, RunnerCommand, Snooze
from holdfast.core.submit import RESULT_BYTES_MAX, encode_payload
from holdfast.core.task import FailureKind, Task
from holdfast.engine.context import BlockingContext, Context
from holdfast.engine.handlers import IN_LOOP, IN_THREAD, Handler, Reject
from holdfast.engine.loop import log
from holdfast.engine.process import ProcessDied, ProcessHost, ResultRefused
from holdfast.engine.threads import ThreadHost
from holdfast.errors import HoldfastError, LeaseLost

ABANDONED_MAX: Final = 16
"""With this many threads that outlive their attempts, no new thread is started."""
SNOOZE_SECONDS_MAX: Final = 366 * 86_400.0


class Executor:
    """Calls handlers in the loop, in threads and in processes."""

    def __init__(
        self, *, monotonic: Callable[[], float], on_returned: Callable[[], None] = lambda: None
    ) -> None:
        self._monotonic = monotonic
        self._on_returned = on_returned
        self._threads = ThreadHost()
        self._processes = ProcessHost()
        self.abandoned_threads = 0
        """Threads whose handler goes on after its timeout or cancellation. A thread cannot be killed."""

    async def run(self, handler: Handler, context: Context, started_at: float) -> RunnerCommand:
        """Runs an attempt and returns its command. CancelledError passes through, and so does LeaseLost
        for the lease of the task itself: the context has requested the cancellation then."""
        try:
            if handler.isolation is IN_LOOP:
                value = await _invoke(handler, context.task, context)
            else:
                value = await self._call_elsewhere(handler, context)
            return _outcome(value, self._monotonic() - started_at)
        except Reject as error:
            kind, final = FailureKind.REJECTED, True
            failure = failures.from_exception(context.task.type, error, kind=kind)
        except LeaseLost as error:
            if context.cancel_requested:
                raise
            # The lease of a lock, a ledger entry or another task: an error of the handler.
            final, failure = False, failures.from_exception(context.task.type, error)
        except ResultRefused as error:
            # The work is done. Another attempt would repeat it and get the same error.
            final, failure = True, failures.from_exception("result", error)
        except ProcessDied as error:
            final = False
            failure = failures.plain(context.task.type, FailureKind.LOST, str(error))
        except (Exception, SystemExit) as error:
            final = False
            failure = failures.from_exception(context.task.type, error)
        return Fail(failure, self._monotonic() - started_at, final=final)

    async def _call_elsewhere(self, handler: Handler, context: Context) -> Any:
        if handler.isolation is IN_THREAD:
            return await self._in_thread(handler, context)
        return await self._processes.run(handler, context)

    async def _in_thread(self, handler: Handler, context: Context) -> Any:
        loop = asyncio.get_running_loop()
        blocking = BlockingContext(context, loop)
        call = functools.partial(_invoke, handler, context.task, blocking)
        future = self._threads.submit(call)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            context.request_cancel()
            if not future.done():
                self._abandon(handler, future)
            raise

    @property
    def has_threads(self) -> bool:
        """Whether a handler may start in a thread: not while too many threads outlive their attempts."""
        return self.abandoned_threads < ABANDONED_MAX

    def _abandon(self, handler: Handler, future: asyncio.Future[Any]) -> None:
        self.abandoned_threads += 1
        future.add_done_callback(self._returned)
        if not self.has_threads:
            log.error(
                "%d handlers in threads go on after their timeout or cancellation, the last of type '%s': "
                "this process takes no tasks for threads until one of them returns. Check "
                "ctx.cancel_requested in long handlers, or run them in processes",
                *(self.abandoned_threads, handler.type),
            )

    def _returned(self, future: asyncio.Future[Any]) -> None:
        self.abandoned_threads -= 1
        self._on_returned()
        if not future.cancelled():
            future.exception()

    async def close(self) -> None:
        await self._processes.close()
        self._threads.close()


def _invoke(handler: Handler, task: Task, context: object) -> Any:
    """Calls the function. The caller awaits the result of an async function."""
    if handler.by_keyword:
        arguments = dict(task.payload or {})
        if handler.context_name is not None:
            arguments[handler.context_name] = context
        return handler.function(**arguments)
    return handler.function(task, context) if handler.wants_context else handler.function(task)


def timed_out(task: Task, seconds: float) -> Fail:
    """The command of an attempt that timed out."""
    message = f"it ran longer than its timeout of {seconds:g} s"
    return Fail(failures.plain(task.type, FailureKind.TIMEOUT, message), seconds)


def _outcome(value: object, duration: float) -> RunnerCommand:
    if value is None:
        return Complete("null", duration)
    if type(value) is Cancel:
        return Cancel(_reason(value.reason))
    if type(value) is Snooze:
        delay = min(max(0.0, float(value.delay_seconds)), SNOOZE_SECONDS_MAX)
        return Snooze(delay, _reason(value.reason))
    try:
        return Complete(encode_payload(value, what="result", limit=RESULT_BYTES_MAX), duration)
    except HoldfastError as error:
        # The work is done. Another attempt would repeat it and get the same error.
        return Fail(failures.from_exception("result", error), duration, final=True)


def _reason(reason: object) -> str:
    """The reason of a handler as text that every store can write."""
    return failures.storable(str(reason))[: failures.MESSAGE_CHARS_MAX]
