"""Backpressure: decides from cached counts whether a queue accepts new tasks.

Promises: the counts are at most a second old, plus the tasks that this process added since. They may be
older if the bound is too far away to be reached meanwhile (`core.pressure.trusted_seconds`). A refusal is
based on fresh counts. Tasks that other processes add within that second may exceed the bound.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from holdfast.core import pressure as pressures
from holdfast.core.pressure import Backlog, DepthBounds, Pressure
from holdfast.core.submit import Submission
from holdfast.core.task import Status
from holdfast.errors import QueueFull
from holdfast.queue.settings import Settings, SettingsInForce
from holdfast.store.store import Store

WAITING: Final = frozenset({Status.QUEUED, Status.BLOCKED})
"""Statuses of tasks that have not started."""


class _Figures:
    """The cached backlog of a queue, the tasks added here since, and when the cache expires."""

    __slots__ = ("added", "left", "load", "settings", "until")

    def __init__(self, load: Backlog, now: float, settings: Settings) -> None:
        self.load = load
        self.added = 0
        self.settings = settings
        self.left = pressures.headroom(settings.bounds, load)
        """How many more tasks are accepted without another check."""
        self.until = now + pressures.trusted_seconds(settings.bounds, self.left)

    def is_fresh(self, now: float, settings: Settings) -> bool:
        return now <= self.until and self.settings is settings

    def add(self, n: int) -> None:
        self.added += n
        self.left -= n


class Backpressure:
    """Raises QueueFull when a queue is full."""

    def __init__(self, settings: SettingsInForce) -> None:
        self._settings = settings
        self._by_queue: dict[str, _Figures] = {}

    async def judge_group(
        self, store: Store, group: Sequence[Submission], *, in_tx: bool
    ) -> Pressure:
        """Checks every queue of the group, and returns the strongest pressure."""
        counts = Counter([submission.task.queue for submission in group])
        answers = [await self.judge(store, queue, n, in_tx=in_tx) for queue, n in counts.items()]
        return max(answers, key=list(Pressure).index, default=Pressure.ACCEPTED)

    def is_at_ease(self, queue: str, now: float) -> bool:
        """Whether the cache allows one more task, which is then counted. Most enqueues need no other
        check."""
        figures = self._by_queue.get(queue)
        if figures is None or figures.left < 1 or not figures.is_fresh(now, self._settings.current):
            return False
        figures.add(1)
        return True

    async def judge(
        self, store: Store, queue: str, adding: int, *, in_tx: bool = False
    ) -> Pressure:
        """Returns the pressure after `adding` more tasks. Raises QueueFull if the queue refuses them.
        `in_tx`: the caller's transaction is open and may hold the only write lock."""
        bounds = self._settings.current.bounds
        if bounds.depth_max is None and bounds.oldest_seconds_max is None:
            return Pressure.ACCEPTED
        figures = self._by_queue.get(queue)
        if figures is None or not figures.is_fresh(store.now(), self._settings.current):
            figures = await self._look(store, queue, in_tx=in_tx)
        answer, reason = _judged(bounds, figures, adding)
        if answer is Pressure.REJECTED:
            figures = await self._look(store, queue, in_tx=in_tx)
            answer, reason = _judged(bounds, figures, adding)
        if answer is Pressure.REJECTED:
            raise QueueFull(
                f"queue '{queue}' takes no more: {reason}; try again later or shed work"
            )
        figures.add(adding)
        return answer

    async def _look(self, store: Store, queue: str, *, in_tx: bool) -> _Figures:
        # `feed.counters` writes, which may wait for the caller's transaction. The stored counts are at
        # most seconds old.
        rows = await (store.reads.counters() if in_tx else store.feed.counters())
        depth = sum(n for q, _, _, status, n in rows if q == queue and status in WAITING)
        settings = self._settings.current
        oldest = 0.0
        if settings.max_age is not None:
            due_at = (await store.backlog.first_due([queue])).due_at
            if due_at is not None:
                oldest = max(0.0, store.now() - due_at)
        figures = _Figures(Backlog(depth, oldest), store.now(), settings)
        self._by_queue[queue] = figures
        return figures


def _judged(bounds: DepthBounds, figures: _Figures, adding: int) -> tuple[Pressure, str]:
    load = Backlog(figures.load.depth + figures.added, figures.load.oldest_seconds)
    return pressures.judge(bounds, load, adding)
