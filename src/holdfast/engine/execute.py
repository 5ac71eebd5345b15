"""Calls handlers in the event loop, in threads and in processes.

Promises: a cancelled call returns at once. It kills a handler process; a handler in a thread goes on and is
counted until it returns. Never: judges what a handler returned or raised (`runner.py`).
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
from collections.abc import Callable
from typing import Any, Final

from holdfast.core.task import Task
from holdfast.engine.around import Around, through
from holdfast.engine.blocking_context import BlockingContext
from holdfast.engine.context import Context
from holdfast.engine.handlers import IN_THREAD, Handler
from holdfast.engine.loop import log
from holdfast.engine.parameters import call_with_arguments
from holdfast.engine.process import ProcessHost
from holdfast.engine.threads import ThreadHost

ABANDONED_MAX: Final = 16
"""With this many threads that outlive their attempts, no new thread is started."""


class Executor:
    """The threads and processes of an engine."""

    def __init__(self, on_returned: Callable[[], None] = lambda: None) -> None:
        self._on_returned = on_returned
        self._threads = ThreadHost()
        self._processes = ProcessHost()
        self.abandoned_threads = 0
        """Threads whose handler goes on after its timeout or cancellation. A thread cannot be killed."""

    async def call(self, handler: Handler, context: Context, around: Around) -> Any:
        """Calls a handler that does not run in the event loop, with plain middleware around it."""
        if handler.isolation is IN_THREAD:
            return await self._in_thread(handler, context, around)
        return await self._processes.run(handler, context, around.paths())

    async def _in_thread(self, handler: Handler, context: Context, around: Around) -> Any:
        loop = asyncio.get_running_loop()
        blocking = BlockingContext(context, loop)
        call: Callable[[], Any] = functools.partial(invoke, handler, context.task, blocking)
        if around.in_place:
            call = functools.partial(through, around.in_place, blocking, call)
        # As `asyncio.to_thread`: what async middleware has put into context variables is there.
        future = self._threads.submit(functools.partial(contextvars.copy_context().run, call))
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


def invoke(handler: Handler, task: Task, context: object) -> Any:
    """Calls the function. The caller awaits the result of an async function."""
    parameters = handler.parameters
    if parameters is None:
        return handler.function(task, context) if handler.wants_context else handler.function(task)
    return call_with_arguments(handler.function, parameters, task, context)
