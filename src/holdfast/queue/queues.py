"""Use cases of queues: list, count, pause, resume.

Promises: a pause is recorded with its actor and reason. A queue that neither the store nor this process has
raises NotFound.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from holdfast.bus.port import FEED, WORK
from holdfast.core.check import check_id, check_name
from holdfast.core.queue_pause import QueuePause
from holdfast.core.task import Status
from holdfast.engine.handlers import Handlers
from holdfast.errors import NotFound
from holdfast.queue.by import By
from holdfast.queue.session import Resources, Sessions


class QueueView(msgspec.Struct, frozen=True):
    """One queue: its number of tasks by status, and its pause."""

    name: str
    counts: dict[str, int]
    paused_at: float | None = None
    paused_by: str | None = None
    reason: str | None = None
    oldest_due_seconds: float | None = None
    """How long the oldest task that waits for a worker is due. None: none is due."""
    version: int = 0
    """How often it was paused or resumed."""

    @property
    def is_paused(self) -> bool:
        return self.paused_at is not None


class Queues:
    """The use cases of the queues of a store."""

    def __init__(self, sessions: Sessions, handlers: Handlers) -> None:
        self._sessions = sessions
        self._handlers = handlers

    async def list(self) -> list[QueueView]:
        """Returns every queue that has tasks, types or a pause, by name."""
        store = (await self._sessions.open()).store
        counts = counts_by_queue(await store.feed.counters())
        types = await store.reads.types()
        pauses = {pause.name: pause for pause in await store.reads.queues()}
        names = sorted({*counts, *pauses, *(row.queue for row in types)})
        due = await store.reads.oldest_due(names)
        now = store.now()
        views = [_view(name, counts.get(name, {}), pauses.get(name)) for name in names]
        return [
            replace(view, oldest_due_seconds=round(now - due[view.name], 3))
            if due.get(view.name, now + 1) <= now
            else view
            for view in views
        ]

    async def get(self, name: str) -> QueueView:
        """Returns one queue. Raises NotFound if it has no tasks, types or pause."""
        for view in await self.list():
            if view.name == name:
                return view
        raise NotFound(f"there is no queue '{name}': see the list of queues")

    async def size(self, queue: str | None = None) -> int:
        """Returns the number of queued and running tasks, of one queue or of all."""
        if queue is not None:
            check_name("queue", queue)
        rows = await (await self._sessions.open()).store.feed.counters()
        counted = (Status.QUEUED, Status.RUNNING)
        return sum(n for q, _, _, status, n in rows if status in counted and queue in (None, q))

    async def pause(self, name: str, by: By) -> None:
        """Stops all nodes from starting tasks of this queue until it is resumed. Running tasks continue."""
        resources = await self._with_queue(name)
        await resources.store.upkeep.pause_queue(
            name,
            actor=by.actor,
            reason=by.reason,
            expected_version=by.expected_version,
            beside=by.beside,
        )
        resources.bus.publish(FEED)

    async def resume(self, name: str, by: By) -> None:
        """Resumes a paused queue."""
        resources = await self._with_queue(name)
        await resources.store.upkeep.resume_queue(
            name,
            actor=by.actor,
            reason=by.reason,
            expected_version=by.expected_version,
            beside=by.beside,
        )
        resources.bus.publish(WORK)
        resources.bus.publish(FEED)

    async def _with_queue(self, name: str) -> Resources:
        """Returns the resources. Raises NotFound for a queue that neither the store nor this process has: the
        name may be misspelt."""
        check_id("queue", name)
        names = {
            "default",
            *self._handlers.queues(),
            *(view.name for view in await self.list()),
        }
        if name not in names:
            shown = ", ".join(sorted(names)[:10])
            raise NotFound(f"there is no queue '{name}' (known: {shown}): check the name")
        return await self._sessions.open()


def _view(name: str, counts: dict[str, int], pause: QueuePause | None) -> QueueView:
    if pause is None:
        return QueueView(name, counts)
    return QueueView(
        name,
        counts,
        pause.paused_at,
        pause.paused_by,
        pause.reason,
        version=pause.version,
    )


def counts_by_queue(rows: Any) -> dict[str, dict[str, int]]:
    """The number of tasks by queue and status, from the counters."""
    by_queue: dict[str, dict[str, int]] = {}
    for queue, _, _, status, n in rows:
        counts = by_queue.setdefault(queue, {})
        counts[status] = counts.get(status, 0) + n
    return by_queue
