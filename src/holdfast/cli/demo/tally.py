"""Follows the feed and knows where every task of the demo is.

Promises: built from events alone, so it is a second opinion to the store's rows; notices a gap in the
feed. Never: asks the store for a task.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

from holdfast.app import TaskQueue
from holdfast.core.event import Event, Position
from holdfast.core.task import ENDED, Status

AFTER = {
    "task.started": Status.RUNNING,
    "task.completed": Status.COMPLETED,
    "task.dead": Status.FAILED,
    "task.aborted": Status.ABORTED,
    "task.lost": Status.QUEUED,
    "task.released": Status.QUEUED,
    "task.snoozed": Status.QUEUED,
    "task.unblocked": Status.QUEUED,
    "task.replayed": Status.QUEUED,
    "task.revived": Status.BLOCKED,
}


class Seen:
    """What the feed has said about one task."""

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


class Tally:
    """All tasks of one run."""

    def __init__(self, ids: list[str]) -> None:
        self._ids = frozenset(ids)
        self._changed = asyncio.Event()
        self.tasks: dict[str, Seen] = {}
        self.kinds: Counter[str] = Counter()
        self.gaps = 0
        self.position: Position | None = None

    async def follow(self, queue: TaskQueue, start: Position) -> None:
        """Takes events in until it is cancelled."""
        self.position = start
        async for event in queue.events(start):
            if event.position.offset != self.position.offset + 1:
                self.gaps += 1
            self.position = event.position
            if event.task_id in self._ids:
                self._take(event)
            self._changed.set()

    async def until(self, reached: Callable[[], bool]) -> None:
        """Waits for the tally to be so."""
        while not reached():
            await self.change()

    async def change(self) -> None:
        """Waits for the next event."""
        self._changed.clear()
        await self._changed.wait()

    def _take(self, event: Event) -> None:
        self.kinds[event.kind] += 1
        if event.kind == "task.enqueued":
            self.tasks[event.task_id] = Seen(event)
            return
        seen = self.tasks[event.task_id]
        seen.status = AFTER.get(event.kind, seen.status)
        if event.kind == "task.started":
            seen.starts.append((event.at, event.data["node"]))
        elif event.kind == "task.completed":
            seen.completions += 1
        elif event.kind == "task.lost":
            seen.lost_by.append(event.data["node"])
        elif event.kind == "task.failed" and event.data["will_retry"]:
            seen.retries += 1
            seen.status = Status.QUEUED

    # -- figures -----------------------------------------------------------------------------------

    def by_status(self) -> Counter[str]:
        return Counter(seen.status.value for seen in self.tasks.values())

    def by_priority(self) -> dict[str, tuple[int, int]]:
        """How many have ended, of how many."""
        found: dict[str, tuple[int, int]] = {}
        for seen in self.tasks.values():
            ended, total = found.get(seen.priority, (0, 0))
            found[seen.priority] = (ended + (seen.status in ENDED), total + 1)
        return found

    def all_ended(self) -> bool:
        return len(self.tasks) == len(self._ids) and all(
            seen.status in ENDED for seen in self.tasks.values()
        )

    def has_seen(self, position: Position) -> bool:
        return self.position is not None and self.position.offset >= position.offset

    def completed(self) -> int:
        return sum(seen.status is Status.COMPLETED for seen in self.tasks.values())

    @property
    def retries(self) -> int:
        return sum(seen.retries for seen in self.tasks.values())

    def lost_by(self, node: str) -> list[str]:
        """The tasks that a dead worker left behind."""
        return [task_id for task_id, seen in self.tasks.items() if node in seen.lost_by]

    def first_waits(self) -> dict[str, list[float]]:
        """By priority: from the enqueue to the first start."""
        found: dict[str, list[float]] = {}
        for seen in self.tasks.values():
            if seen.starts:
                found.setdefault(seen.priority, []).append(seen.starts[0][0] - seen.enqueued_at)
        return found
