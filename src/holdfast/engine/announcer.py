"""Announces outcomes that the store has committed or refused.

Promises: callers in this process that wait for a task are woken at once; dispatchers of all processes learn
of new work, and readers of the feed of new events. Never: writes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from holdfast.bus.port import FEED, WORK, Bus
from holdfast.core.decide import Ruling, Transition, applied
from holdfast.core.task import QUEUED, Task
from holdfast.engine.meters import Measures
from holdfast.engine.owned_runs import OwnedRuns
from holdfast.engine.pool import WorkerPool
from holdfast.engine.ports import Claims


class Announcer:
    """One for each engine."""

    def __init__(
        self,
        bus: Bus,
        runs: OwnedRuns,
        pool: WorkerPool,
        dispatcher: Claims,
        *,
        measures: Measures,
        on_ended: Callable[[list[Task]], None],
    ) -> None:
        self._bus = bus
        self._runs = runs
        self._pool = pool
        self._dispatcher = dispatcher
        self._measures = measures
        self._on_ended = on_ended

    def announce(self, answers: Sequence[tuple[Task, Ruling]]) -> None:
        if self._measures.has_meter:
            self._measures.ended(answers)
        more_work = False
        runs, ended = self._runs.by_id, list[Task]()
        for task, ruling in answers:
            runs.pop(task.run, None)
            now = ruling.after if type(ruling) is Transition else applied(ruling)
            if now is not None:
                ended.append(now)
                if now.status is QUEUED or now.limits or now.has_dependents:
                    more_work = True
            if task.has_dependents or task.limits:
                more_work = True
        self._on_ended(ended)
        if more_work:
            self._bus.publish(WORK)
        self._bus.publish(FEED)
        if not self._pool.busy:
            self._dispatcher.worker_freed()
