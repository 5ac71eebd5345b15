"""Blocking code in virtual time: a thread that runs only while the loop waits for it.

Promises: the thread and the event loop never run at once, so a run is the same every time; what blocks lets
virtual time pass. A crash ends the code where it blocks, and every port refuses it from then on.
Never: two strands at once, a thread that outlives its run.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from holdfast.sim.clock import NodeClock

T = TypeVar("T")


class Killed(BaseException):
    """The process is gone: product code does not catch this, and what it cleans up reaches nothing."""


class Ended:
    """How the code ended."""

    __slots__ = ("error", "value")

    def __init__(self, value: Any, error: BaseException | None) -> None:
        self.value = value
        self.error = error


class BlockingThread:
    """One piece of blocking code. `run` drives it from the event loop; inside, `call` awaits."""

    def __init__(self) -> None:
        self._go = threading.Semaphore(0)
        self._back = threading.Semaphore(0)
        self._said: Callable[[], Awaitable[Any]] | Ended = Ended(None, None)
        self._answer = Ended(None, None)
        self.thread: threading.Thread | None = None
        self.is_dead = False

    async def run(self, work: Callable[[], T]) -> T:
        """To its end. Raises what it raises, Killed too."""
        context = contextvars.copy_context()
        self.thread = threading.Thread(target=context.run, args=(self._work, work), daemon=True)
        self.thread.start()
        self._back.acquire()
        while not isinstance(self._said, Ended):
            try:
                self._answer = Ended(await self._said(), None)
            except Exception as error:
                self._answer = Ended(None, error)
            self._turn()
        if self._said.error is not None:
            raise self._said.error
        value: T = self._said.value
        return value

    def call(self, make: Callable[[], Awaitable[T]]) -> T:
        """From inside: what it brings, when it is there. See `holdfast.primitives.portal.Portal`."""
        if self.is_dead:
            raise Killed
        self._said = make
        self._back.release()
        self._go.acquire()
        if self.is_dead:
            raise Killed
        if self._answer.error is not None:
            raise self._answer.error
        value: T = self._answer.value
        return value

    def close(self) -> None:
        """Nothing to close: the loop is not ours."""

    def kill(self) -> None:
        """From the event loop: it goes no further."""
        self.is_dead = True
        thread = self.thread
        if thread is not None and thread.is_alive() and thread is not threading.current_thread():
            self._go.release()
            thread.join()

    def _turn(self) -> None:
        self._go.release()
        self._back.acquire()

    def _work(self, work: Callable[[], T]) -> None:
        try:
            ended = Ended(work(), None)
        except BaseException as error:
            ended = Ended(None, error)
        self._said = ended
        self._back.release()


class BlockingThreadClock:
    """The clock of a node for code that blocks: see `holdfast.clock.BlockingClock`."""

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
