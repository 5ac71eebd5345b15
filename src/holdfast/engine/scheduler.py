"""Fires cron schedules, once each, whatever the number of instances.

Promises: a schedule that is due gets one task, in the transaction that moves it to its next time; fires
that were missed while nobody ran are made up for by one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from holdfast.clock import Clock
from holdfast.core.schedule import Schedule
from holdfast.core.submit import Submission
from holdfast.engine.loop import Loop
from holdfast.store.scripts import admin
from holdfast.store.store import Store

LOOK_SECONDS: Final = 10.0


class Scheduler(Loop):
    name = "scheduler"

    def __init__(
        self,
        clock: Clock,
        store: Store,
        make: Callable[[Schedule, float], Submission],
        on_fired: Callable[[], None],
    ) -> None:
        super().__init__(clock)
        self._store = store
        self._make = make
        self._on_fired = on_fired
        self.fired = 0

    async def tick(self) -> float:
        rows = await self._store.query("schedules")
        schedules = [Schedule(*row) for row in rows]
        active = [schedule for schedule in schedules if not schedule.paused]
        now = self._store.now()
        for schedule in active:
            if schedule.next_at <= now:
                await self._fire(schedule, now)
        waits = [schedule.next_at - now for schedule in active if schedule.next_at > now]
        return max(0.0, min([LOOK_SECONDS, *waits]))

    async def _fire(self, schedule: Schedule, now: float) -> None:
        submission = self._make(schedule, now)
        inserted = await self._store.run(
            lambda dialect, ids, at: admin.fire(
                dialect, ids, at, schedule=schedule, submission=submission
            )
        )
        if inserted is not None:
            self.fired += 1
            self._on_fired()
        self.wake()
