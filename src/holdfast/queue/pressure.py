"""Backpressure: how a queue takes new work, from figures that are cheap to keep.

Promises: judged on figures at most a second old plus what was added here, or older ones where a bound is
so far that it cannot have been reached since (`core.pressure.trusted_seconds`); a refusal only on fresh
ones. What other processes add within that second may pass the bound.
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
"""What has not started: a task that waits for another one waits as well."""


class _Figures:
    """The load of a queue, what was added here since, and until when these figures are good enough."""

    __slots__ = ("added", "left", "load", "settings", "until")

    def __init__(self, load: Backlog, now: float, settings: Settings) -> None:
        self.load = load
        self.added = 0
        self.settings = settings
        self.left = pressures.headroom(settings.bounds, load)
        """How many more are accepted without another judgement."""
        self.until = now + pressures.trusted_seconds(settings.bounds, self.left)

    def is_fresh(self, now: float, settings: Settings) -> bool:
        return now <= self.until and self.settings is settings

    def add(self, n: int) -> None:
        self.added += n
        self.left -= n


class Backpressure:
    """Says when a queue is full."""

    def __init__(self, settings: SettingsInForce) -> None:
        self._settings = settings
        self._by_queue: dict[str, _Figures] = {}

    async def judge_group(
        self, store: Store, group: Sequence[Submission], *, in_tx: bool
    ) -> Pressure:
        """How the queues of the group take it; the strongest pressure of them."""
        counts = Counter([submission.task.queue for submission in group])
        answers = [await self.judge(store, queue, n, in_tx=in_tx) for queue, n in counts.items()]
        return max(answers, key=list(Pressure).index, default=Pressure.ACCEPTED)

    def is_at_ease(self, queue: str, now: float) -> bool:
        """Whether one more is accepted without looking; counts it. Most enqueues end here."""
        figures = self._by_queue.get(queue)
        if figures is None or figures.left < 1 or not figures.is_fresh(now, self._settings.current):
            return False
        figures.add(1)
        return True

    async def judge(
        self, store: Store, queue: str, adding: int, *, in_tx: bool = False
    ) -> Pressure:
        """How the queue takes that many more; QueueFull when it does not. `in_tx`: the caller's transaction
        is open and may be the only one that can write."""
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
        # Counting writes; figures as of the last count are at most seconds old.
        rows = await (store.reads.counters() if in_tx else store.counters())
        depth = sum(n for q, _, _, status, n in rows if q == queue and status in WAITING)
        settings = self._settings.current
        oldest = 0.0
        if settings.max_age is not None:
            due_at = (await store.first_due([queue])).due_at
            if due_at is not None:
                oldest = max(0.0, store.now() - due_at)
        figures = _Figures(Backlog(depth, oldest), store.now(), settings)
        self._by_queue[queue] = figures
        return figures


def _judged(bounds: DepthBounds, figures: _Figures, adding: int) -> tuple[Pressure, str]:
    load = Backlog(figures.load.depth + figures.added, figures.load.oldest_seconds)
    return pressures.judge(bounds, load, adding)
