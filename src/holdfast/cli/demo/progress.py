"""Follows the feed and derives the state of every task of the demo from it.

Promises: uses events only, so it is independent of the store's rows; counts gaps in the feed.
Never: reads a task from the store.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

from holdfast.app import TaskQueue
from holdfast.core.event import Event, Position, status_after
from holdfast.core.task import ENDED, Status


class TaskProgress:
    """The state of one task according to the feed."""

    __slots__ = (
        "completions",
        "enqueued_at",
        "lost_by",
        "priority",
        "retries",
        "starts",
        "status",
    )

    def __init__(self, event: Event) -> None:
        self.priority: str = event.data["priority"]
        self.status = Status.BLOCKED if event.data.get("waiting_on") else Status.QUEUED
        self.enqueued_at = event.at
        self.starts: list[tuple[float, str]] = []
        self.completions = 0
        self.retries = 0
        self.lost_by: list[str] = []


class FeedProgress:
    """All tasks of one run."""

    def __init__(self, ids: list[str]) -> None:
        self._ids = frozenset(ids)
        self._changed = asyncio.Event()
        self.tasks: dict[str, TaskProgress] = {}
        self.kinds: Counter[str] = Counter()
        self.gaps = 0
        self.position: Position | None = None

    async def follow(self, queue: TaskQueue, start: Position) -> None:
        """Applies events until it is cancelled."""
        self.position = start
        async for event in queue.events(start):
            if event.position.offset != self.position.offset + 1:
                self.gaps += 1
            self.position = event.position
            if event.task_id in self._ids:
                self._apply(event)
            self._changed.set()

    async def wait_until(self, condition: Callable[[], bool]) -> None:
        """Waits until the condition holds; checks it after every event."""
        while not condition():
            await self.wait_for_event()

    async def wait_for_event(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    def _apply(self, event: Event) -> None:
        self.kinds[event.kind] += 1
        if event.kind == "task.enqueued":
            self.tasks[event.task_id] = TaskProgress(event)
            return
        task = self.tasks[event.task_id]
        task.status = status_after(event) or task.status
        if event.kind == "task.started":
            task.starts.append((event.at, event.data["node"]))
        elif event.kind == "task.completed":
            task.completions += 1
        elif event.kind == "task.lost":
            task.lost_by.append(event.data["node"])
        elif event.kind == "task.failed" and event.data["will_retry"]:
            task.retries += 1

    # -- figures -----------------------------------------------------------------------------------

    def by_status(self) -> Counter[str]:
        return Counter(task.status.value for task in self.tasks.values())

    def by_priority(self) -> dict[str, tuple[int, int]]:
        """Ended tasks and all tasks of each priority."""
        counts: dict[str, tuple[int, int]] = {}
        for task in self.tasks.values():
            ended, total = counts.get(task.priority, (0, 0))
            counts[task.priority] = (ended + (task.status in ENDED), total + 1)
        return counts

    def all_ended(self) -> bool:
        return len(self.tasks) == len(self._ids) and all(
            task.status in ENDED for task in self.tasks.values()
        )

    def has_reached(self, position: Position) -> bool:
        return self.position is not None and self.position.offset >= position.offset

    def completed(self) -> int:
        return sum(task.status is Status.COMPLETED for task in self.tasks.values())

    @property
    def retries(self) -> int:
        return sum(task.retries for task in self.tasks.values())

    def lost_by(self, node: str) -> list[str]:
        """The ids of tasks whose lease on this node expired."""
        return [task_id for task_id, task in self.tasks.items() if node in task.lost_by]

    def first_waits(self) -> dict[str, list[float]]:
        """Seconds from enqueue to first start, by priority."""
        waits: dict[str, list[float]] = {}
        for task in self.tasks.values():
            if task.starts:
                waits.setdefault(task.priority, []).append(task.starts[0][0] - task.enqueued_at)
        return waits
