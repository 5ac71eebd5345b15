"""An event loop in a background thread, for blocking callers.

Promises: any thread may call. An error is raised in the calling thread. Closing cancels the calls in
progress, whose callers get NotRunning, and waits for the loop to end. An internal module.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Final, TypeVar

from holdfast.core.steps import Interrupted
from holdfast.errors import NotRunning
from holdfast.forks import PassiveFollower, follow

T = TypeVar("T")
_END: Final = object()
CLOSE_SECONDS: Final = 10.0
"""How long closing waits for the calls that it has cancelled."""


class Portal(PassiveFollower):
    """Starts on first use, and again on first use in a forked child."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.RLock()
        """A signal handler or the garbage collector may call in the thread that holds it."""
        self.is_closed = False
        self._inherited: list[object] = []
        """Loop and thread of the parent process; referenced so that they are not finalized in this one."""
        follow(self)

    @property
    def is_running(self) -> bool:
        """Whether its thread runs in this process."""
        return self._loop is not None and not self.is_closed

    def start_over(self) -> None:
        self._inherited += [self._loop, self._thread]
        self._loop = self._thread = None
        self._lock = threading.RLock()

    def call(self, make: Callable[[], Awaitable[T]]) -> T:
        """Waits for the answer. An interrupt of the waiting caller cancels the call."""
        future = self.submit(make)
        try:
            return self._result(future)
        except BaseException:
            future.cancel()
            raise

    def finish(self, make: Callable[[], Awaitable[T]]) -> T | Interrupted:
        """Waits for a call that must not be interrupted. An interrupt of the caller is returned with the
        answer. A second interrupt is raised at once, and the call continues."""
        future = self.submit(make)
        try:
            return self._result(future)
        except BaseException as error:
            if future.done() and (future.cancelled() or future.exception() is error):
                raise
            return Interrupted(self._result(future), error)

    def submit(self, make: Callable[[], Awaitable[T]]) -> concurrent.futures.Future[T]:
        """Starts the call without waiting."""

        async def answer() -> T:
            return await make()

        with self._lock:
            loop = self._started()
            return asyncio.run_coroutine_threadsafe(answer(), loop)

    def iterate(self, make: Callable[[], AsyncIterator[T]]) -> Iterator[T]:
        """The items of an async iterator. Leaving the loop early closes it. The garbage collector may do so
        too, in any thread."""
        items, process = make(), os.getpid()
        try:
            while (item := self.call(lambda: _next(items))) is not _END:
                yield item  # type: ignore[misc]
        finally:
            close = getattr(items, "aclose", None)
            # A child of the process inherits the iterator, but not the loop that it runs in.
            if close is not None and not self.is_closed and os.getpid() == process:
                # The thread of the loop, where the collector may run, cannot wait for itself.
                is_own = threading.current_thread() is self._thread
                (self.submit if is_own else self.call)(close)

    def close(self) -> None:
        with self._lock:
            is_first, self.is_closed = not self.is_closed, True
            loop, thread = self._loop, self._thread
        if is_first and loop is not None and thread is not None:
            # Closed portals refuse calls, so this covers all that were submitted.
            asyncio.run_coroutine_threadsafe(_cancel_all(), loop).result()
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()

    def _result(self, future: concurrent.futures.Future[T]) -> T:
        try:
            return future.result()
        except concurrent.futures.CancelledError as error:
            if not self.is_closed:
                raise
            raise self._closed() from error

    def _closed(self) -> NotRunning:
        return NotRunning(f"{self._name} was closed: make a new one")

    def _started(self) -> asyncio.AbstractEventLoop:
        if self.is_closed:
            raise self._closed()
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(
                target=self._loop.run_forever, name=f"holdfast-{self._name}", daemon=True
            )
            self._thread.start()
        return self._loop


async def _next(items: AsyncIterator[T]) -> T | object:
    return await anext(items, _END)


async def _cancel_all() -> None:
    """Cancels every other task of this loop and waits for them, then closes the iterators that callers left
    open, with the connections that they hold."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    if others:
        await asyncio.wait(others, timeout=CLOSE_SECONDS)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(CLOSE_SECONDS):
            await asyncio.get_running_loop().shutdown_asyncgens()
