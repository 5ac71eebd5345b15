"""A thread that detects a handler that blocks the event loop, and keeps the leases of the process meanwhile.

Promises: an event loop that is blocked for `patience_seconds` is logged once, with the task whose handler
runs and its stack. From half of that time on, the leases of the process are renewed within the bounds of
`core/loop_block.py`; the end of these bounds and the end of the block are logged too. A process that was
suspended as a whole (a suspended machine, SIGSTOP) does not count as blocked. A handler that blocks and also
keeps the interpreter's lock stops this thread as well: its leases expire.
Never: changes a task, or an object of the event loop. Renewals go through a `LeaseKeeper` with an own
connection.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any, Final

from holdfast.clock import Clock
from holdfast.core.failure import below_engine
from holdfast.core.lease import renewal_interval
from holdfast.core.loop_block import BLOCK_SECONDS_MAX, LoopBlock
from holdfast.core.task import Task
from holdfast.core.text import lines
from holdfast.engine.lease_keeper import LeaseKeeper
from holdfast.engine.loop import log

PERIOD_SECONDS: Final = 1.0
FRAMES_MAX: Final = 12
STOP_SECONDS: Final = 10.0
"""How long a stop waits for a renewal in progress."""

TaskOf = Callable[[asyncio.Task[Any] | None], Task | None]
"""The task whose handler a task of the event loop runs."""


class Watchdog:
    """One for each engine. Its thread ends with `stop`, or with the process."""

    def __init__(
        self,
        clock: Clock,
        task_of: TaskOf,
        keeper: LeaseKeeper,
        *,
        lease_seconds: float,
        on_kept: Callable[[], None] = lambda: None,
        period_seconds: float = PERIOD_SECONDS,
    ) -> None:
        """`on_kept` is called in the event loop after a block in which leases were kept."""
        self._clock = clock
        self._task_of = task_of
        self._keeper = keeper
        self._on_kept = on_kept
        self._lease_seconds = lease_seconds
        self._patience_seconds = renewal_interval(lease_seconds)
        self._period_seconds = min(period_seconds, self._patience_seconds / 4)
        self._turned_at = clock.monotonic()
        self._stop = threading.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended: asyncio.Event | None = None
        self._watched = 0
        self.blocks = 0
        """How often the loop was found blocked."""

    def start(self) -> None:
        """Watches the event loop that runs now."""
        self._loop, self._ended = asyncio.get_running_loop(), asyncio.Event()
        self._watched = threading.get_ident()
        self._turn()
        threading.Thread(target=self._run, name="holdfast-watchdog", daemon=True).start()

    async def stop(self) -> None:
        """Returns when the thread writes nothing any more."""
        self._stop.set()
        if self._timer is not None:
            self._timer.cancel()
        if self._ended is not None:
            await self._clock.wait(self._ended, STOP_SECONDS)

    def _turn(self) -> None:
        assert self._loop is not None
        self._turned_at = self._clock.monotonic()
        self._timer = self._loop.call_later(self._period_seconds, self._turn)

    # -- in the thread -----------------------------------------------------------------------------

    def _run(self) -> None:
        assert self._loop is not None
        assert self._ended is not None
        try:
            self._watch()
        finally:
            self._call(self._ended.set)

    def _watch(self) -> None:
        looked_at = self._clock.monotonic()
        while not self._stop.wait(self._period_seconds):
            now, before = self._clock.monotonic(), looked_at
            looked_at = now
            if now - before > self._period_seconds + self._patience_seconds / 2:
                continue  # This thread did not run either: the whole process was suspended.
            if now - self._turned_at >= self._patience_seconds / 2:
                self._follow(self._turned_at)
                looked_at = self._clock.monotonic()

    def _follow(self, blocked_at: float) -> None:
        """Keeps leases until the event loop runs again."""
        has_kept = is_logged = False
        keep_at = blocked_at
        try:
            while self._turned_at == blocked_at and not self._stop.is_set():
                now = self._clock.monotonic()
                if now - blocked_at >= self._patience_seconds and not is_logged:
                    is_logged = True
                    self.blocks += 1
                    self._log_block(now - blocked_at)
                if now >= keep_at:
                    is_whole = self._keeper.keep(self._block(now - blocked_at))
                    has_kept = has_kept or is_whole
                    pause = self._patience_seconds if is_whole else self._period_seconds
                    keep_at = now + pause
                self._stop.wait(self._period_seconds)
        finally:
            self._keeper.end()
        if is_logged:
            log.warning("the event loop runs again after %.1f s", self._turned_at - blocked_at)
        if has_kept:
            self._call(self._on_kept)

    def _call(self, function: Callable[[], None]) -> None:
        """Calls a function in the event loop, unless that has ended."""
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(function)
        except RuntimeError:
            return

    def _block(self, seconds: float) -> LoopBlock:
        task = self._task_of(asyncio.current_task(self._loop))
        return LoopBlock(seconds) if task is None else LoopBlock(seconds, task.id, task.type)

    def _log_block(self, seconds: float) -> None:
        block = self._block(seconds)
        frame = sys._current_frames().get(self._watched)
        stack = traceback.extract_stack(frame) if frame is not None else traceback.StackSummary()
        by = "something that is not a handler of this queue"
        if block.task_id:
            stack = below_engine(stack)
            by = f"the handler of task {block.task_id} ({block.task_type})"
        log.error(
            "the event loop of this process has been blocked for %.1f s by %s: no other task of it runs. A "
            "thread renews the leases meanwhile, of each task until its timeout, for at most %.0f s. Await "
            "long operations, or make the handler a plain function, which runs in a thread. Its stack:\n%s",
            *(seconds, by, BLOCK_SECONDS_MAX, lines("".join(stack.format()[-FRAMES_MAX:]))),
            extra={
                "outcome": "blocked",
                "blocked_seconds": round(seconds, 3),
                "task_id": block.task_id,
                "task_type": block.task_type,
            },
        )
