"""Follows a task: its events as they come, until it has ended, and no longer than a command has patience."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import aclosing
from typing import TypeVar

from holdfast.cli.session import advice
from holdfast.cli.use_cases import UseCases
from holdfast.core.event import Event, Position
from holdfast.core.task import ENDED, Task
from holdfast.errors import NotFound, WaitTimeout

T = TypeVar("T")


class Patience:
    """How long a command waits. The time counts from `begin`, so that a command looks at least once."""

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds
        self._timer: asyncio.Timeout | None = None

    async def bound(self, work: Awaitable[T]) -> T:
        """The result of the work, which calls `begin` after its first look. WaitTimeout after the time."""
        try:
            async with asyncio.timeout(None) as self._timer:
                return await work
        except TimeoutError:
            raise WaitTimeout(f"nothing ended the wait within {self.seconds:g} s") from None

    def begin(self) -> None:
        """Starts the time. Later calls change nothing."""
        timer = self._timer
        if self.seconds is not None and timer is not None and timer.when() is None:
            timer.reschedule(asyncio.get_running_loop().time() + self.seconds)


async def news_of(
    parts: UseCases, task_id: str, after: Position
) -> AsyncIterator[tuple[Event, Task]]:
    """The events of a task after a position, each with the task as it is when the event is read. Ends when
    the task has ended, with the last event that the feed has then."""
    is_ended, last = False, after
    with advice(lambda: f"task {task_id} goes on: holdfast task show {task_id}"):
        async with aclosing(parts.feed.events(after)) as coming:
            async for event in coming:
                last = event.position
                if event.task_id == task_id:
                    task = await _read(parts, task_id)
                    yield event, task
                    if is_ended := task.status in ENDED:
                        break
        if is_ended:
            async with aclosing(parts.feed.events(last, follow=False)) as rest:
                async for event in rest:
                    if event.task_id == task_id:
                        yield event, await _read(parts, task_id)


async def _read(parts: UseCases, task_id: str) -> Task:
    task = await parts.tasks.look_up(task_id)
    if task is None:
        raise NotFound(f"task {task_id} was removed")
    return task
