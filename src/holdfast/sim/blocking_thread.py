"""Blocking code in virtual time: a thread that runs only while the event loop waits for it.

Promises: the thread and the event loop never run at the same time, so runs are deterministic; a blocking
call lets virtual time pass. A crash ends the code at its blocking call, and later calls fail too. Never:
two blocking threads at once, a thread that outlives its run.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from holdfast.sim.clock import NodeClock

T = TypeVar("T")


class Killed(BaseException):
    """The process was killed. Product code does not catch this, and its cleanup has no effect."""


class Result:
    """A value or an error."""

    __slots__ = ("error", "value")

    def __init__(self, value: Any, error: BaseException | None) -> None:
        self.value = value
        self.error = error


class BlockingThread:
    """Runs one blocking function. The event loop calls `run`; the function calls `call` to wait."""

    def __init__(self) -> None:
        self._go = threading.Semaphore(0)
        self._back = threading.Semaphore(0)
        self._request: Callable[[], Awaitable[Any]] | Result = Result(None, None)
        self._answer = Result(None, None)
        self.thread: threading.Thread | None = None
        self.is_dead = False

    async def run(self, work: Callable[[], T]) -> T:
        """Runs the function to its end. Raises its errors, including Killed."""
        context = contextvars.copy_context()
        self.thread = threading.Thread(target=context.run, args=(self._work, work), daemon=True)
        self.thread.start()
        self._back.acquire()
        while not isinstance(self._request, Result):
            try:
                self._answer = Result(await self._request(), None)
            except Exception as error:
                self._answer = Result(None, error)
            self._resume()
        if self._request.error is not None:
            raise self._request.error
        value: T = self._request.value
        return value

    def call(self, make: Callable[[], Awaitable[T]]) -> T:
        """Awaits on the event loop and returns the result. See `holdfast.portal.Portal`."""
        if self.is_dead:
            raise Killed
        self._request = make
        self._back.release()
        self._go.acquire()
        if self.is_dead:
            raise Killed
        if self._answer.error is not None:
            raise self._answer.error
        value: T = self._answer.value
        return value

    def close(self) -> None:
        """There is nothing to close: the event loop belongs to the run."""

    def kill(self) -> None:
        """Ends the function at its blocking call. Called from the event loop."""
        self.is_dead = True
        thread = self.thread
        if thread is not None and thread.is_alive() and thread is not threading.current_thread():
            self._go.release()
            thread.join()

    def _resume(self) -> None:
        self._go.release()
        self._back.acquire()

    def _work(self, work: Callable[[], T]) -> None:
        try:
            result = Result(work(), None)
        except BaseException as error:
            result = Result(None, error)
        self._request = result
        self._back.release()


class BlockingThreadClock:
    """The clock of a node for blocking code: see `holdfast.clock.BlockingClock`."""

    __slots__ = ("_blocking_thread", "_clock")

    def __init__(self, clock: NodeClock, blocking_thread: BlockingThread) -> None:
        self._clock = clock
        self._blocking_thread = blocking_thread

    def now(self) -> float:
        return self._clock.now()

    def monotonic(self) -> float:
        return self._clock.monotonic()

    def pause(self, seconds: float) -> None:
        self._blocking_thread.call(lambda: self._clock.sleep(max(0.0, seconds)))
