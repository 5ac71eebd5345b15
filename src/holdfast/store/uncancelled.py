"""Finishes a write although its caller is cancelled.

Promises: the work runs in a separate task. On the first cancellation the caller waits for its end. On the
second one the caller returns and the work continues. When all tasks of a loop are cancelled, as `asyncio.run`
does at its end, the work runs again, so it must be safe to repeat. Never: loses a cancellation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from holdfast.core.steps import Interrupted

T = TypeVar("T")
TRIES: Final = 2


class UncancelledWrites:
    """The writes in progress of one caller."""

    def __init__(self) -> None:
        self.tasks: set[asyncio.Task[Any]] = set()

    async def finish(
        self,
        make: Callable[[], Coroutine[Any, Any, T]],
        *,
        unwanted: Callable[[T], Coroutine[Any, Any, object]] | None = None,
    ) -> T | Interrupted:
        """Returns the answer, or `Interrupted` with the answer if the caller was cancelled meanwhile.
        `unwanted` undoes an answer that comes after the caller has returned."""
        interruption: asyncio.CancelledError | None = None
        tries = 0
        while True:
            task = self._spawn(make())
            tries += 1
            while not task.done():
                try:
                    await asyncio.wait([task])
                except asyncio.CancelledError as error:
                    if interruption is not None:
                        if unwanted is not None:
                            self._spawn(_undo(task, unwanted))
                        raise
                    interruption = error
            if not task.cancelled() or tries == TRIES:
                break
        if interruption is None:
            return task.result()
        if task.cancelled():
            raise interruption
        if (failed := task.exception()) is not None:
            interruption.add_note(f"what was being written meanwhile failed: {failed!r}")
            raise interruption
        return Interrupted(task.result(), interruption)

    def _spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self.tasks.discard(task)
        if not task.cancelled():
            task.exception()  # Marks it as retrieved: there may be no caller left to raise it to.


async def _undo(
    task: asyncio.Task[T], unwanted: Callable[[T], Coroutine[Any, Any, object]]
) -> None:
    await unwanted(await task)
