"""An event loop in a thread of its own, for callers that block.

Promises: any thread may call; an error of the call is raised where it was called; closing ends every call
that is still under way, whose caller gets NotRunning, and waits for the loop's end. Never: runs the caller's
own code in the loop.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from holdfast.core.steps import Interrupted
from holdfast.errors import NotRunning
from holdfast.forks import Unmoved, follow

T = TypeVar("T")
CLOSE_SECONDS: Final = 10.0
"""How long closing waits for calls that it has cancelled."""


class Portal(Unmoved):
    """Started when first needed; in a forked child once more."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self.is_closed = False
        self._inherited: list[object] = []
        """Of the process that this one was forked from: kept, so that nothing of its loop unwinds here."""
        follow(self)

    def start_over(self) -> None:
        self._inherited += [self._loop, self._thread]
        self._loop = self._thread = None
        self._lock = threading.Lock()

    def call(self, make: Callable[[], Awaitable[T]]) -> T:
        """Waits for the answer. A caller that is interrupted while it waits cancels the call."""
        future = self.submit(make)
        try:
            return self._result(future)
        except BaseException:
            future.cancel()
            raise

    def finish(self, make: Callable[[], Awaitable[T]]) -> T | Interrupted:
        """Waits for the answer of what must not be broken off: a caller that is interrupted gets it with the
        interruption beside it. A second interruption lets go, and the call ends by itself."""
        future = self.submit(make)
        try:
            return self._result(future)
        except BaseException as error:
            if future.done() and (future.cancelled() or future.exception() is error):
                raise
            return Interrupted(self._result(future), error)

    def submit(self, make: Callable[[], Awaitable[T]]) -> concurrent.futures.Future[T]:
        """Starts it and does not wait."""

        async def answer() -> T:
            return await make()

        with self._lock:
            loop = self._started()
            return asyncio.run_coroutine_threadsafe(answer(), loop)

    def close(self) -> None:
        with self._lock:
            is_first, self.is_closed = not self.is_closed, True
            loop, thread = self._loop, self._thread
        if is_first and loop is not None and thread is not None:
            # Nothing is submitted any more, so this comes after all that was.
            asyncio.run_coroutine_threadsafe(_end_all(), loop).result()
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


async def _end_all() -> None:
    """Every task of this loop but the one that asks."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    if others:
        await asyncio.wait(others, timeout=CLOSE_SECONDS)
