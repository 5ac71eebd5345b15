"""A thread that detects a handler that blocks the event loop.

Promises: an event loop that is blocked for `patience_seconds` is logged once, with the task whose handler
runs and its stack. The end of the block is logged too. A process that was suspended as a whole (a
suspended machine, SIGSTOP) does not count as blocked.
Never: touches the store or a task. A lease is not renewed while its process is blocked.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any, Final

from holdfast.clock import Clock
from holdfast.engine.loop import log

PERIOD_SECONDS: Final = 1.0
FRAMES_MAX: Final = 12

Named = Callable[[asyncio.Task[Any] | None], str]
"""Describes what a task of the event loop works on."""


class Watchdog:
    """One for each engine. Its thread ends with `stop`, or with the process."""

    def __init__(
        self,
        clock: Clock,
        named: Named,
        *,
        patience_seconds: float,
        lease_seconds: float,
        period_seconds: float = PERIOD_SECONDS,
    ) -> None:
        self._clock = clock
        self._named = named
        self._patience_seconds = patience_seconds
        self._lease_seconds = lease_seconds
        self._period_seconds = min(period_seconds, patience_seconds / 2)
        self._turned_at = clock.monotonic()
        self._stop = threading.Event()
        self._timer: asyncio.TimerHandle | None = None
        self.blocks = 0
        """How often the loop was found blocked."""

    def start(self) -> None:
        """Watches the event loop that runs now."""
        loop = asyncio.get_running_loop()
        self._turn(loop)
        threading.Thread(
            target=self._watch,
            args=(loop, threading.get_ident()),
            name="holdfast-watchdog",
            daemon=True,
        ).start()

    def stop(self) -> None:
        self._stop.set()
        if self._timer is not None:
            self._timer.cancel()

    def _turn(self, loop: asyncio.AbstractEventLoop) -> None:
        self._turned_at = self._clock.monotonic()
        self._timer = loop.call_later(self._period_seconds, self._turn, loop)

    def _watch(self, loop: asyncio.AbstractEventLoop, thread: int) -> None:
        blocked_at: float | None = None
        looked_at = self._clock.monotonic()
        while not self._stop.wait(self._period_seconds):
            now, before = self._clock.monotonic(), looked_at
            looked_at = now
            if now - before > self._period_seconds + self._patience_seconds / 2:
                continue  # This thread did not run either: the whole process was suspended.
            if blocked_at is not None and self._turned_at > blocked_at:
                log.warning("the event loop runs again after %.1f s", self._turned_at - blocked_at)
                blocked_at = None
            if blocked_at is None and now - self._turned_at >= self._patience_seconds:
                blocked_at = self._turned_at
                self.blocks += 1
                self._log_block(loop, thread, now - blocked_at)

    def _log_block(self, loop: asyncio.AbstractEventLoop, thread: int, seconds: float) -> None:
        frame = sys._current_frames().get(thread)
        stack = traceback.format_stack(frame)[-FRAMES_MAX:] if frame is not None else []
        log.error(
            "the event loop of this process has been blocked for %.1f s by %s: no lease is renewed and no "
            "other task runs; after %.1f s other processes take its tasks over. Await long operations, or "
            "make the handler a plain function, which runs in a thread. Its stack:\n%s",
            *(
                seconds,
                self._named(asyncio.current_task(loop)),
                self._lease_seconds,
                "".join(stack),
            ),
        )
