"""Background tasks of one set of locks: requests to the store and renewal loops.

Promises: a task stays referenced until it ends; an error that no caller awaits is logged.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")
log = logging.getLogger("holdfast.locks")


class BackgroundTasks:
    """Belongs to one event loop."""

    def __init__(self) -> None:
        self.running: dict[asyncio.Task[Any], None] = {}
        """In the order of their start: a set of objects is ordered by address."""
        self.task_ended = asyncio.Event()

    def spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.create_task(work)
        self.running[task] = None
        task.add_done_callback(self._ended)
        return task

    def cancel(self) -> None:
        for task in self.running:
            task.cancel()

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self.running.pop(task, None)
        self.task_ended.set()
        if not task.cancelled() and task.exception() is not None:
            log.debug("a request ended with %r", task.exception())
