"""Backpressure: how a queue takes new work, from figures that are cheap to keep.

Promises: judged on figures at most a second old plus what was added here, or older ones where a bound is
so far that nobody could have reached it since (`core.pressure.trusted_seconds`); a refusal only on fresh
ones. What other processes add within that second may pass the bound.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from holdfast.core import pressure as pressures
from holdfast.core.pressure import Backlog, DepthBounds, Pressure
from holdfast.core.submit import Submission
from holdfast.core.task import Status
from holdfast.errors import QueueFull
from holdfast.queue.backend import Backend
from holdfast.queue.lifecycle import Lifecycle
from holdfast.queue.settings import Settings

WAITING: Final = frozenset({Status.QUEUED, Status.BLOCKED})
"""What has not started: a task that waits for another one waits as well."""


class _Known:
    """What is known of a queue: its load, what was added here since, and until when that is enough."""

    __slots__ = ("added", "left", "load", "settings", "until")

    def __init__(self, load: Backlog, now: float, settings: Settings) -> None:
        self.load = load
        self.added = 0
        self.settings = settings
        self.left = pressures.headroom(settings.bounds, load)
        """How many more need no second thought."""
        self.until = now + pressures.trusted_seconds(settings.bounds, self.left)

    def is_fresh(self, now: float, settings: Settings) -> bool:
        return now <= self.until and self.settings is settings

    def add(self, n: int) -> None:
        self.added += n
        self.left -= n


class Backpressure(Lifecycle):
    """The part of a queue that says when it is too much."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._known: dict[str, _Known] = {}

    async def _pressures(
        self, backend: Backend, group: Sequence[Submission], *, carried: bool
    ) -> Pressure:
        counts = Counter([submission.task.queue for submission in group])
        found = [
            await self._pressure(backend, queue, n, carried=carried) for queue, n in counts.items()
        ]
        return max(found, key=list(Pressure).index, default=Pressure.ACCEPTED)

    def _is_at_ease(self, queue: str, now: float) -> bool:
        """Whether one more is accepted without looking; counts it. Most enqueues end here."""
        known = self._known.get(queue)
        if known is None or known.left < 1 or not known.is_fresh(now, self._settings):
            return False
        known.add(1)
        return True

    async def _pressure(
        self, backend: Backend, queue: str, adding: int, *, carried: bool = False
    ) -> Pressure:
        """How the queue takes so many more. `carried`: the caller's transaction is open and may be the
        only one that can write."""
        bounds = self._settings.bounds
        if bounds.depth_max is None and bounds.oldest_seconds_max is None:
            return Pressure.ACCEPTED
        known = self._known.get(queue)
        if known is None or not known.is_fresh(backend.store.now(), self._settings):
            known = await self._look_anew(backend, queue, carried=carried)
        answer, reason = _judged(bounds, known, adding)
        if answer is Pressure.REJECTED:
            known = await self._look_anew(backend, queue, carried=carried)
            answer, reason = _judged(bounds, known, adding)
        if answer is Pressure.REJECTED:
            raise QueueFull(
                f"queue '{queue}' takes no more: {reason}; try again later or shed work"
            )
        known.add(adding)
        return answer

    async def _look_anew(self, backend: Backend, queue: str, *, carried: bool) -> _Known:
        # Counting writes; figures as of the last count are at most seconds old.
        rows = await (backend.store.reads.counters() if carried else backend.store.counters())
        depth = sum(n for q, _, _, status, n in rows if q == queue and status in WAITING)
        oldest = 0.0
        if self._settings.max_age is not None:
            due_at = (await backend.store.first_due([queue])).due_at
            if due_at is not None:
                oldest = max(0.0, backend.store.now() - due_at)
        known = _Known(Backlog(depth, oldest), backend.store.now(), self._settings)
        self._known[queue] = known
        return known


def _judged(bounds: DepthBounds, known: _Known, adding: int) -> tuple[Pressure, str]:
    load = Backlog(known.load.depth + known.added, known.load.oldest_seconds)
    return pressures.judge(bounds, load, adding)
