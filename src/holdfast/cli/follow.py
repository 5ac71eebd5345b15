"""Follows a task: its events as they come, until it has ended."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing

from holdfast.cli.session import advice
from holdfast.cli.use_cases import UseCases
from holdfast.core.event import Event, Position
from holdfast.core.task import ENDED, Task
from holdfast.errors import NotFound


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
