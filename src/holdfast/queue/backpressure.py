"""Backpressure: how a queue takes new work, from figures that are cheap to keep.

Promises: judged on figures at most a second old plus what was added here; a refusal only on fresh ones.
What other processes add within that second may pass the bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from holdfast.core import pressure as pressures
from holdfast.core.pressure import Load, Pressure
from holdfast.core.submit import Submission
from holdfast.core.task import Status
from holdfast.errors import QueueFull
from holdfast.queue.backend import Backend
from holdfast.queue.lifecycle import Lifecycle

LOAD_SECONDS: Final = 1.0


class Backpressure(Lifecycle):
    """The part of a queue that says when it is too much."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._load: dict[str, tuple[Load, float]] = {}
        self._added: dict[str, int] = {}

    async def _pressures(
        self, backend: Backend, group: Sequence[Submission], *, carried: bool
    ) -> Pressure:
        counts: dict[str, int] = {}
        for submission in group:
            counts[submission.task.queue] = counts.get(submission.task.queue, 0) + 1
        found = [
            await self._pressure(backend, queue, n, carried=carried) for queue, n in counts.items()
        ]
        return max(found, key=list(Pressure).index, default=Pressure.ACCEPTED)

    async def _pressure(
        self, backend: Backend, queue: str, adding: int, *, carried: bool = False
    ) -> Pressure:
        """Judged on figures at most a second old plus what was added here; a refusal only on fresh.
        `carried`: the caller's transaction is open and may be the only one that can write."""
        bounds = self._settings.bounds
        if bounds.depth_max is None and bounds.oldest_seconds_max is None:
            return Pressure.ACCEPTED
        now = backend.store.now()
        load, at = self._load.get(queue, (Load(0), float("-inf")))
        if now - at > LOAD_SECONDS:
            load = await self._fresh_load(backend, queue, carried=carried)
        added = self._added.get(queue, 0)
        answer, reason = pressures.judge(
            bounds, Load(load.depth + added, load.oldest_seconds), adding
        )
        if answer is Pressure.REJECTED:
            load = await self._fresh_load(backend, queue, carried=carried)
            answer, reason = pressures.judge(bounds, load, adding)
        if answer is Pressure.REJECTED:
            raise QueueFull(
                f"queue '{queue}' takes no more: {reason}; try again later or shed work"
            )
        self._added[queue] = self._added.get(queue, 0) + adding
        return answer

    async def _fresh_load(self, backend: Backend, queue: str, *, carried: bool) -> Load:
        # Counting writes; figures as of the last count are at most seconds old.
        rows = await (backend.store.query("counters") if carried else backend.store.counters())
        depth = sum(n for q, _, _, status, n in rows if q == queue and status == Status.QUEUED)
        oldest = 0.0
        if self._settings.max_age is not None:
            due = await backend.store.first_due([queue])
            if due is not None:
                oldest = max(0.0, backend.store.now() - due)
        load = Load(depth, oldest)
        self._load[queue] = (load, backend.store.now())
        self._added[queue] = 0
        return load
