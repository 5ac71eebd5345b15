"""Floors of the ready index: one for each lane, which is a queue and a priority.

Promises: a lane that a claim did not reach keeps its floor; a claim for other types or projects starts
without floors.
Floors serve a stream of full claims, and long scans. A claim that starts at a floor and gets fewer tasks than
requested is repeated from the front if that scan is short, so no worker idles while a task waits below.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

from holdfast.core.claiming import ClaimRequest
from holdfast.core.task import Priority, Task
from holdfast.store.fast.floors import FRONT, SLACK_SECONDS, Floors, Place

Firsts: TypeAlias = dict[tuple[str, int], Place]
"""By queue and priority."""


class Lanes:
    """The lanes of one process."""

    __slots__ = ("floors", "is_flowing", "monotonic", "projects", "types")

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self.monotonic = monotonic
        self.floors = Floors(monotonic)
        self.types: tuple[str, ...] = ()
        self.projects: tuple[str, ...] | None = None
        self.is_flowing = False
        """The last claim returned as many tasks as requested."""

    def look(self, claim: ClaimRequest) -> LaneScan:
        """Begins a scan for this claim."""
        if claim.types != self.types or claim.projects != self.projects:
            self.floors.forget()
            self.types, self.projects = claim.types, claim.projects
        return LaneScan(self, claim)

    def distrust(self) -> None:
        self.floors.distrust()


class LaneScan:
    """The scan of one claim: where it starts in each lane, and its result."""

    __slots__ = ("_claim", "_lanes", "_started_at", "_starts")

    def __init__(self, lanes: Lanes, claim: ClaimRequest) -> None:
        self._lanes = lanes
        self._claim = claim
        self._started_at = lanes.monotonic()
        self._starts = [
            lanes.floors.start((queue, priority), unless_cheap=not lanes.is_flowing)
            for queue in claim.queues
            for priority in Priority
        ]

    def params(self) -> dict[str, Any]:
        """The starts, as parameters of a statement."""
        return {
            "floors": [due_at for due_at, _ in self._starts],
            "floor_nths": [nth for _, nth in self._starts],
        }

    def texts(self) -> dict[str, str]:
        """The lanes in order with their starts, as joined text, which is faster to bind: for the claim of an
        idle worker."""
        queues = self._claim.queues
        starts = [
            self._starts[n * len(Priority) + priority]
            for priority in Priority
            for n in range(len(queues))
        ]
        return {
            "queues": "\n".join(queues * len(Priority)),
            "priorities": _priorities(len(queues)),
            "floors": " ".join([repr(due_at) for due_at, _ in starts]),
            "floor_nths": " ".join([str(nth) for _, nth in starts]),
        }

    def claimed(
        self, firsts: Firsts, *, picked: int, now: float, limited_due_at: float | None
    ) -> tuple[bool, float]:
        """Stores the result of `claim_plain`: the first task of each lane, and how many tasks it picked,
        including tasks with limits, which are not claimed yet. Returns whether to claim again at once,
        because the last claim was full and this one was not; otherwise for how many seconds scans may miss
        tasks below a floor."""
        due_at = now - SLACK_SECONDS
        ceiling = (due_at if limited_due_at is None else min(due_at, limited_due_at), 0)
        # Lanes are served by priority, then by queue. A full claim has not read the lanes after its last one.
        is_full = picked >= self._claim.limit
        was_flowing, self._lanes.is_flowing = self._lanes.is_flowing, is_full
        last = max((self._order(*lane) for lane in firsts), default=(-1, -1)) if is_full else None
        for n, queue in enumerate(self._claim.queues):
            for priority in Priority:
                if last is None or (priority, n) <= last:
                    self._learn(
                        n, queue, priority, min(firsts.get((queue, priority), ceiling), ceiling)
                    )
        below = [
            self._lanes.floors.holds_for((queue, priority))
            for n, queue in enumerate(self._claim.queues)
            for priority in Priority
            if not is_full and self._starts[n * len(Priority) + priority] != FRONT
        ]
        return (True, 0.0) if below and was_flowing else (False, max(below, default=0.0))

    def aged(self, tasks: Sequence[Task], *, horizon: float, below: Priority) -> None:
        """Stores the result of `pick_aged`: the oldest tasks of all lanes."""
        firsts = firsts_of((task.queue, task.priority, task.due_at, 0) for task in tasks)
        if len(tasks) >= self._claim.limit:
            horizon = min(horizon, tasks[-1].due_at)
        ceiling = (horizon, 0)
        for n, queue in enumerate(self._claim.queues):
            for priority in Priority:
                if priority > below:
                    self._learn(
                        n, queue, priority, min(firsts.get((queue, priority), ceiling), ceiling)
                    )

    def _order(self, queue: str, priority: int) -> tuple[int, int]:
        return priority, self._claim.queues.index(queue)

    def _learn(self, n: int, queue: str, priority: Priority, nothing_below: Place) -> None:
        self._lanes.floors.learn(
            (queue, priority),
            start=self._starts[n * len(Priority) + priority],
            nothing_below=nothing_below,
            started_at=self._started_at,
        )


@lru_cache
def _priorities(queues: int) -> str:
    """The priority of each lane, for a number of queues."""
    return " ".join(str(priority.value) for priority in Priority for _ in range(queues))


def firsts_of(rows: Iterable[tuple[str, int, float, int]]) -> Firsts:
    """The first row of each lane, from sorted rows (queue, priority, due at, nth)."""
    firsts: Firsts = {}
    for queue, priority, due_at, nth in rows:
        firsts.setdefault((queue, priority), (due_at, nth))
    return firsts
