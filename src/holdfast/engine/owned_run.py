"""A run that this process owns, from its claim to the commit of its outcome.

Promises: a run is cancelled for one reason, the first. A handler that ignores its cancellation is cancelled
again, and given up after `GIVE_UP_SECONDS`: its lease is not renewed any more.
"""

from __future__ import annotations

import asyncio
import traceback
from typing import Any, Final

from holdfast.core.task import Task
from holdfast.engine.context import Context

LOST: Final[str] = "lost"
"""Cancelled because the lease was lost: nothing is written."""
TIMEOUT: Final[str] = "timeout"
"""Cancelled because of the timeout: the attempt has failed."""
RELEASED: Final[str] = "released"
"""Cancelled because this process stops: the engine gives the task back."""
CUT_OFF_REASON: Final = "its lease could not be renewed in time; its worker is alive"
CUT_OFF: Final[str] = "cut off"
"""Cancelled because the lease was about to end and could not be renewed: the task is given back when the
handler has stopped."""
FRAMES_MAX: Final = 8
AGAIN_SECONDS: Final = 10.0
"""Time to clean up before a handler is cancelled again."""
GIVE_UP_SECONDS: Final = 30.0
"""A handler that still runs this long after its cancellation is given up."""


class OwnedRun:
    """A run in this process, from claim to commit."""

    __slots__ = (
        *("cancelled", "cancelled_at", "cancels", "context", "is_given_up", "run", "started"),
        "started_at",
        *("task", "worker"),
    )

    def __init__(self, task: Task) -> None:
        self.task = task
        self.run = task.run
        self.started = False
        self.started_at: float | None = None
        """The monotonic time at which the handler was called."""
        self.context: Context | None = None
        self.worker: asyncio.Task[None] | None = None
        self.cancelled: str | None = None
        self.cancelled_at = 0.0
        self.cancels = 0
        """How often the worker was cancelled. It needs as many calls of `uncancel` to go on."""
        self.is_given_up = False

    @property
    def has_ended(self) -> bool:
        """Whether only the commit is outstanding. The commit itself reports a lost lease."""
        return self.started and self.worker is None

    def run_seconds(self, now: float) -> float:
        """How long the handler has run. 0 before it starts and after it has ended."""
        return 0.0 if self.started_at is None or self.has_ended else now - self.started_at

    @property
    def is_renewed(self) -> bool:
        """Whether to renew the lease."""
        if self.context is not None and self.context.is_suspended:
            return False
        return self.cancelled != LOST and not self.is_given_up

    @property
    def current(self) -> Task:
        """The task with the changes of its reports."""
        return self.context.task if self.context is not None else self.task

    def cancel(self, why: str, now: float) -> None:
        if self.cancelled is None:
            self.cancelled, self.cancelled_at = why, now
            if self.context is not None:
                self.context.request_cancel()
            if why == RELEASED:
                self._name_worker()
            self.cancel_worker()

    def give_up(self) -> None:
        """Gives the handler up, because it ignores its cancellation."""
        self.is_given_up = True
        self._name_worker()

    def _name_worker(self) -> None:
        """Names the worker after its task, for the log line of a stop that leaves it running."""
        if self.worker is not None:
            self.worker.set_name(f"the handler of task {self.task.id} ({self.task.type})")

    def cancel_worker(self) -> None:
        if self.worker is not None:
            self.cancels += 1
            self.worker.cancel()

    def may_cancel_again(self, now: float) -> bool:
        """Whether the handler has had time to clean up after its first cancellation."""
        return now - self.cancelled_at >= AGAIN_SECONDS

    def is_deaf(self, now: float) -> bool:
        """Whether the handler has ignored its cancellation for too long."""
        return now - self.cancelled_at >= GIVE_UP_SECONDS

    def stack(self) -> str:
        """The stack of the handler."""
        waits: Any = self.worker.get_coro() if self.worker is not None else None
        frames = []
        while (frame := getattr(waits, "cr_frame", None)) is not None:
            frames.append((frame, frame.f_lineno))
            waits = waits.cr_await
        return "".join(traceback.StackSummary.extract(iter(frames[-FRAMES_MAX:])).format())

    def go_on(self) -> None:
        """Clears the cancellations of the handler, so that the worker goes on. Raises CancelledError if the
        worker itself was cancelled too."""
        current = asyncio.current_task()
        if current is None:
            return
        for _ in range(self.cancels):
            current.uncancel()
        if current.cancelling():
            raise asyncio.CancelledError
