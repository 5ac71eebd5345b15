"""The loops of the fleet's jobs: outbox, rollouts, deadlines.

Promises: several processes may run them at once: every step is a transaction under the lock of its job. A
job whose step fails is logged and left alone for a while; it stops no other. A lost hint costs one look.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

from holdfast.bus.port import FEED, Bus
from holdfast.clock import Clock
from holdfast.core.fleet.rules import FleetHosting, FleetRules
from holdfast.engine.loop import Loop
from holdfast.engine.supervisor import Supervisor
from holdfast.errors import HoldfastError
from holdfast.fleet.attempts import Attempts
from holdfast.fleet.hints import JOBS
from holdfast.fleet.jobs import figures
from holdfast.fleet.jobs.deadlines import Deadlines
from holdfast.fleet.jobs.outbox import OVERDUE_SECONDS
from holdfast.fleet.jobs.planning import JOBS_MAX
from holdfast.fleet.jobs.rows import own
from holdfast.fleet.pipeline import Pipeline
from holdfast.metrics import Meter
from holdfast.store.script import Script, call
from holdfast.store.store import Store

LOOK_SECONDS: Final = 5.0
"""The longest time between two looks for jobs that have something to do."""
FIGURE_SECONDS: Final = 10.0
DEADLINE_SECONDS: Final = 1.0
"""The time between two looks at what ends by itself."""
PACE_SECONDS: Final = 0.02
"""The least time between two looks, so that ends are counted together."""
LEAST_SECONDS: Final = 1e-6
"""A shorter pause may not move a clock at all."""
DRIVEN_MAX: Final = 200
"""Executions that the server drives at once."""
log: Final = logging.getLogger("holdfast.fleet")


class OutboxLoop(Loop):
    """Hands over what the outbox announces."""

    name = "fleet-outbox"

    def __init__(self, clock: Clock, store: Store, pipeline: Pipeline, rules: FleetRules) -> None:
        super().__init__(clock)
        self._store = store
        self._pipeline = pipeline
        self._rules = rules
        self._driving: dict[str, asyncio.Task[None]] = {}
        self._overdue_at = clock.monotonic() + OVERDUE_SECONDS

    async def tick(self) -> float:
        """An entry that comes due before the next tick makes it come earlier."""
        while await self._pipeline.publish_outbox(self, runs=DRIVEN_MAX - len(self._driving)):
            pass
        if self.clock.monotonic() >= self._overdue_at:
            self._overdue_at = self.clock.monotonic() + OVERDUE_SECONDS
            await self._pipeline.announce_overdue(self)
        return self._rules.outbox_seconds

    async def plan_job(self, job_id: str) -> bool:
        """The engine plans by itself: the entry is done with the call."""
        await self._pipeline.plan_job(job_id)
        return True

    async def run_execution(self, execution_id: str) -> bool:
        """Drives it beside the loop, if there is a place. The entry is done when the execution does not wait
        any more."""
        if execution_id not in self._driving and len(self._driving) < DRIVEN_MAX:
            task = asyncio.create_task(self._drive(execution_id), name=f"fleet-{execution_id}")
            self._driving[execution_id] = task
        return False

    async def _drive(self, execution_id: str) -> None:
        try:
            await self._pipeline.run_execution(execution_id)
        except HoldfastError as error:
            log.warning("execution %s is driven again later: %s", execution_id, error)
        except Exception:
            log.exception("execution %s is driven again later", execution_id)
        finally:
            was_full = len(self._driving) >= DRIVEN_MAX
            del self._driving[execution_id]
            if was_full:
                self.wake()

    async def stop(self) -> None:
        """Ends the drives of this process. The hosts go on; another process looks at them later."""
        tasks = list(self._driving.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class RolloutLoop(Loop):
    """Takes the steps of jobs that have something to do."""

    name = "fleet-rollouts"

    def __init__(self, clock: Clock, store: Store, pipeline: Pipeline) -> None:
        super().__init__(clock)
        self._store = store
        self._pipeline = pipeline
        self._plans = Attempts("the plan of job", store.now)
        self._ticked_at = -PACE_SECONDS

    async def tick(self) -> float:
        early = PACE_SECONDS - (self.clock.monotonic() - self._ticked_at)
        if early > LEAST_SECONDS:
            return early
        self._ticked_at = self.clock.monotonic()
        most = JOBS_MAX + len(self._plans)
        found, next_at = await self._pipeline.look_at_jobs(most)
        jobs = [job_id for job_id in found if not self._plans.is_waiting(job_id)]
        for job_id in jobs:
            await self._plans.run(job_id, partial(self._pipeline.plan_job, job_id))
        self.troubles = self._plans.troubles
        if len(found) >= most and jobs:
            return 0.0
        if found:
            next_at = await self._store.read(next_due)  # The plans have moved it.
        pause = LOOK_SECONDS if next_at is None else next_at - self._store.now()
        return min(LOOK_SECONDS, max(PACE_SECONDS, pause))


class DeadlineLoop(Loop):
    """Ends approvals whose time is over, and lets go what blocks hold no more."""

    name = "fleet-deadlines"

    def __init__(self, clock: Clock, deadlines: Deadlines) -> None:
        super().__init__(clock)
        self._deadlines = deadlines

    async def tick(self) -> float:
        before = self._deadlines.troubles
        for what, part in (
            ("expiring approvals", self._deadlines.expire_approvals),
            ("releasing held executions", self._deadlines.release_held),
            ("stopping blocked executions", self._deadlines.stop_blocked),
        ):
            await self.guard(what, part())
        self.troubles += self._deadlines.troubles - before
        return DEADLINE_SECONDS


class FigureLoop(Loop):
    """Sets the gauges of hosts, approvals and the outbox."""

    name = "fleet-figures"

    def __init__(self, clock: Clock, store: Store, rules: FleetRules, meter: Meter) -> None:
        super().__init__(clock)
        self._store = store
        self._rules = rules
        self._meter = meter

    async def tick(self) -> float:
        await figures.look(self._meter, self._store, self._rules)
        return FIGURE_SECONDS


class FleetLoops:
    """The loops of one process."""

    def __init__(
        self,
        store: Store,
        rules: FleetRules,
        clock: Clock,
        bus: Bus,
        pipeline: Pipeline,
        *,
        more: Sequence[Loop] = (),
    ) -> None:
        """`more`: further loops that run beside these, e.g. the delivery of webhooks. Outbox and rollouts are
        left out if Celery has them (`holdfast.fleet.celery`)."""
        self.outbox = OutboxLoop(clock, store, pipeline, rules)
        self.rollouts = RolloutLoop(clock, store, pipeline)
        self.deadlines = DeadlineLoop(clock, Deadlines(store, rules, bus, meter=pipeline.meter))
        self.figures = FigureLoop(clock, store, rules, pipeline.meter)
        self._clock = clock
        self._bus = bus
        self._more = tuple(more)
        self._hosting = rules.hosting

    @property
    def loops(self) -> tuple[Loop, ...]:
        beside = (self.deadlines, self.figures, *self._more)
        if self._hosting is FleetHosting.CELERY:
            return beside
        return (self.outbox, self.rollouts, *beside)

    def wake(self, hint: str = "") -> None:
        """On a hint. The feed has one for every change of a task, so it wakes the rollouts only."""
        self.rollouts.wake()
        if hint != FEED:
            self.outbox.wake()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Runs the loops in the background."""
        leave = self._bus.subscribe(self.wake, JOBS, FEED)
        supervisor = Supervisor(self._clock, lambda failure: log.critical("%s", failure))
        for loop in self.loops:
            supervisor.start(loop.name, loop.run)
        try:
            yield
        finally:
            leave()
            await supervisor.stop()
            await self.outbox.stop()


def next_due() -> Script[float | None]:
    rows = yield call(own("next_job_due"))
    return rows[0][0] if rows else None
