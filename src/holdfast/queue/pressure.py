"""Backpressure: decides from cached counts whether a queue accepts new tasks.

Promises: the counts are at most a second old, plus the tasks that this process added since. They may be
older if the bound is too far away to be reached meanwhile (`core.pressure.trusted_seconds`). A refusal is
based on fresh counts. Tasks of this process whose inserts are under way count, however many callers there
are; while a count is taken, some of them may count twice. Tasks that other processes add within that second
may exceed the bound.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, TypeAlias

from holdfast.core import pressure as pressures
from holdfast.core.alike import AlikeTasks
from holdfast.core.pressure import Backlog, DepthBounds, Pressure
from holdfast.core.submit import Submission
from holdfast.core.task import Status
from holdfast.errors import InvalidInput, QueueFull
from holdfast.forks import PassiveFollower, follow
from holdfast.queue.settings import Settings, SettingsInForce
from holdfast.store.store import Store

WAITING: Final = frozenset({Status.QUEUED, Status.BLOCKED})
"""Statuses of tasks that have not started."""
_Look: TypeAlias = tuple[asyncio.AbstractEventLoop, str, bool]
"""A count in progress: its event loop, the queue, and whether the caller's transaction is open."""


class _Figures:
    """The counted backlog of a queue, the tasks added here since, and when the count expires."""

    __slots__ = ("_counted", "_total", "_under_way", "left", "load", "settings", "until")

    def __init__(self) -> None:
        self.load = Backlog(0)
        self.settings: Settings | None = None
        self.until = -math.inf
        self.left = 0
        """How many more tasks are accepted without another check."""
        self._total = 0
        """Tasks that were accepted here."""
        self._counted = 0
        """Those of them that `load` contains."""
        self._under_way: dict[int, int] = {}
        """Tasks whose inserts have not ended, by key. A count may not contain them yet."""

    @property
    def added(self) -> int:
        return self._total - self._counted

    def is_fresh(self, now: float, settings: Settings) -> bool:
        return now <= self.until and self.settings is settings

    def certain(self) -> int:
        """How many of the accepted tasks a count that begins now contains with certainty."""
        return self._total - sum(list(self._under_way.values()))

    def counted(self, load: Backlog, certain: int, now: float, settings: Settings) -> None:
        self.load, self.settings, self._counted = load, settings, certain
        self.left = pressures.headroom(settings.bounds, load) - self.added
        self.until = now + pressures.trusted_seconds(settings.bounds, self.left)

    def add(self, n: int, key: int) -> None:
        self._total += n
        self.left -= n
        self._under_way[key] = n

    def end(self, key: int) -> int:
        return self._under_way.pop(key, 0)

    def take_back(self, key: int) -> None:
        n = self.end(key)
        self._total -= n
        self.left += n


class Backpressure(PassiveFollower):
    """Raises QueueFull when a queue is full.

    A `key` names an insert: the `id()` of a submission or a group, which its caller holds until the end."""

    def __init__(self, settings: SettingsInForce) -> None:
        self._settings = settings
        self._by_queue: dict[str, _Figures] = {}
        self._looks: dict[_Look, asyncio.Task[None]] = {}
        follow(self)

    def start_over(self) -> None:
        """Called in a forked child: the inserts under way are those of the parent."""
        self._by_queue, self._looks = {}, {}

    def is_at_ease(self, queue: str, key: int, now: float) -> bool:
        """Whether the cache allows one more task, which is then counted, until `ended`, or there is no bound.
        Most enqueues need no other check."""
        figures, settings = self._by_queue.get(queue), self._settings.current
        if figures is None or figures.left < 1 or not figures.is_fresh(now, settings):
            return settings.max_depth is None and settings.max_age is None
        figures.add(1, key)
        return True

    def ended(self, queue: str, key: int) -> None:
        """The insert has ended, and a count contains its task."""
        if (figures := self._by_queue.get(queue)) is not None:
            figures.end(key)

    @contextmanager
    def under_way(self, group: Sequence[Submission]) -> Iterator[None]:
        """Inside, the group is judged and inserted. One that is refused because of a task in it is not
        counted."""
        queues = list(_by_queue(group))
        try:
            yield
        except InvalidInput:
            for queue in queues:
                if (figures := self._by_queue.get(queue)) is not None:
                    figures.take_back(id(group))
            raise
        finally:
            for queue in queues:
                self.ended(queue, id(group))

    async def judge_group(
        self, store: Store, group: Sequence[Submission], key: int, *, in_tx: bool
    ) -> Pressure:
        """Checks every queue of the group, counts its tasks, and returns the strongest pressure. Raises
        QueueFull, and counts none, if a queue refuses them. `in_tx`: the caller's transaction is open and
        may hold the only write lock."""
        bounds = self._settings.current.bounds
        if bounds.depth_max is None and bounds.oldest_seconds_max is None:
            return Pressure.ACCEPTED
        counts = _by_queue(group)
        for queue, n in counts.items():
            await self._refresh(store, queue, n, in_tx=in_tx)
        # No await from here on: of many callers, each counts before the next one is judged.
        answers = [self._judge(bounds, queue, n) for queue, n in counts.items()]
        for queue, n in counts.items():
            self._by_queue[queue].add(n, key)
        return max(answers, key=list(Pressure).index, default=Pressure.ACCEPTED)

    def _judge(self, bounds: DepthBounds, queue: str, adding: int) -> Pressure:
        answer, reason = _judged(bounds, self._by_queue[queue], adding)
        if answer is Pressure.REJECTED:
            raise QueueFull(
                f"queue '{queue}' takes no more: {reason}; try again later or shed work"
            )
        return answer

    async def _refresh(self, store: Store, queue: str, adding: int, *, in_tx: bool) -> None:
        """Counts the backlog unless the last count serves to accept the tasks."""
        settings = self._settings.current
        figures = self._by_queue.setdefault(queue, _Figures())
        is_fresh = figures.is_fresh(store.now(), settings)
        if is_fresh and _judged(settings.bounds, figures, adding)[0] is not Pressure.REJECTED:
            return
        # Callers of one event loop that wait at the same time share a count.
        look = (asyncio.get_running_loop(), queue, in_tx)
        task = self._looks.get(look)
        if task is None:
            task = asyncio.create_task(self._count(store, queue, figures, in_tx=in_tx))
            self._looks[look] = task
            task.add_done_callback(lambda task: self._looked(look, task))
        await asyncio.shield(task)

    def _looked(self, look: _Look, task: asyncio.Task[None]) -> None:
        self._looks.pop(look, None)
        if not task.cancelled():
            task.exception()  # Marks it as retrieved: its callers may have been cancelled.

    async def _count(self, store: Store, queue: str, figures: _Figures, *, in_tx: bool) -> None:
        certain = figures.certain()
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
        figures.counted(Backlog(depth, oldest), certain, store.now(), settings)


def _by_queue(group: Sequence[Submission]) -> Mapping[str, int]:
    """How many tasks of the group each queue gets."""
    if isinstance(group, AlikeTasks):
        return {group.model.task.queue: len(group)}
    return Counter([submission.task.queue for submission in group])


def _judged(bounds: DepthBounds, figures: _Figures, adding: int) -> tuple[Pressure, str]:
    load = Backlog(figures.load.depth + figures.added, figures.load.oldest_seconds)
    return pressures.judge(bounds, load, adding)
