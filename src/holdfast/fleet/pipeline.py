"""The steps from a new job to its end: `publish_outbox`, `plan_job`, `run_execution`.

Each is a plain call that may be repeated: its steps are transactions of their own, and a second call finds
what the first has done. So they run in the loops of a server, or in the workers of Celery, where messages
are lost and repeated: the truth is the store, a message is a hint.
Promises: an entry of the outbox is handed over until what it announces has happened. Every 30 s it is
announced again.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final, Protocol

from holdfast.bus.port import Bus
from holdfast.core.fleet.model import HostDriver, OutboxEntry, OutboxKind
from holdfast.core.fleet.rules import FleetRules
from holdfast.errors import HoldfastError, NotSupported
from holdfast.fleet.hints import wake_hosts
from holdfast.fleet.jobs import figures
from holdfast.fleet.jobs.job_rows import GRANTED, read_job
from holdfast.fleet.jobs.outbox import BATCH, Outbox, overdue_pushed
from holdfast.fleet.jobs.planned import Planned
from holdfast.fleet.jobs.planning import JOBS_MAX, JobLook, look_at_jobs, plan_step
from holdfast.fleet.jobs.waiting import open_execution, waiting_execution
from holdfast.metrics import Meter, NullMeter
from holdfast.store.port import RowHeld
from holdfast.store.store import Store

STEPS_MAX: Final = 1_000
"""Steps of one call of `plan_job`. What is left is planned by the next call."""
log: Final = logging.getLogger("holdfast.fleet")
Drive = Callable[[str], Awaitable[None]]
"""Sees one execution of a host through that the server has to reach."""


class Hosting(Protocol):
    """Where the steps run. A call returns whether the step has been taken; else its message was sent, and
    the step is announced again until its effect is seen."""

    async def plan_job(self, job_id: str) -> bool: ...

    async def run_execution(self, execution_id: str) -> bool: ...


class Pipeline:
    """The steps over one store."""

    def __init__(
        self,
        store: Store,
        rules: FleetRules,
        bus: Bus,
        *,
        owner: str,
        drives: Mapping[HostDriver, Drive] | None = None,
        meter: Meter | None = None,
    ) -> None:
        self._store = store
        self._rules = rules
        self._bus = bus
        self._outbox = Outbox(store, owner)
        self._drives = dict(drives or {})
        self.meter: Meter = NullMeter() if meter is None else meter

    async def publish_outbox(self, hosting: Hosting, *, runs: int = BATCH) -> int:
        """Hands over what is due, at most this number of runs: a claim keeps others from an entry, so it is
        for those only that can begin now. Returns how many entries there were. An entry that fails is tried
        again later; it stops no other."""
        count = 0
        for kind, hand_over, most in (
            (OutboxKind.PLAN_JOB, partial(self._plan, hosting), BATCH),
            (OutboxKind.RUN_EXECUTION, partial(self._run, hosting), min(runs, BATCH)),
        ):
            if most <= 0:
                continue
            due_at = await self._outbox.next_due(kind)
            if due_at is None or due_at > self._store.now():
                continue
            entries = await self._outbox.claim(kind, most)
            count += len(entries)
            await self._outbox.done([e for e in entries if await self._handed_over(e, hand_over)])
        return count

    async def announce_overdue(self, hosting: Hosting) -> int:
        """Hands over executions again that no process looks after, e.g. because the one with their message
        died. Call it every `OVERDUE_SECONDS`. Returns how many there were."""
        drivers = [driver.value for driver in HostDriver if self._rules.is_pushed(driver)]
        now = self._store.now()
        found = await self._store.read(lambda: overdue_pushed(drivers, now))
        for execution_id in found:
            await hosting.run_execution(execution_id)
        return len(found)

    async def look_at_jobs(self, limit: int = JOBS_MAX) -> JobLook:
        """Jobs with ends that were not counted, and jobs whose time to be looked at has come."""
        now = self._store.now()
        return await self._store.read(lambda: look_at_jobs(now, limit))

    async def due_jobs(self) -> list[str]:
        """The jobs with something to do."""
        return (await self.look_at_jobs()).ids

    async def wait_seconds(self, execution_id: str) -> float | None:
        """How long an execution waits for its next attempt. None: it waits for nothing but its host, or not
        at all."""
        waiting = await self._store.read(lambda: waiting_execution(execution_id))
        if waiting is None:
            return None
        left = waiting.task.due_at - self._store.now()
        return left if left > 0 else None

    async def _handed_over(
        self, entry: OutboxEntry, hand_over: Callable[[str], Awaitable[bool]]
    ) -> bool:
        """Whether the entry is done."""
        try:
            return await hand_over(entry.subject)
        except HoldfastError as error:
            if error.retryable and not isinstance(error, RowHeld):
                raise
            log.warning("%s of %s is tried again later: %s", entry.kind, entry.subject, error)
            await self._outbox.delay(entry, str(error))
        except Exception as error:
            log.exception("%s of %s is tried again later", entry.kind, entry.subject)
            await self._outbox.delay(entry, repr(error))
        return False

    async def _plan(self, hosting: Hosting, job_id: str) -> bool:
        job = await self._store.read(lambda: read_job(job_id))
        if job is None or job.started_at is not None or job.finished_at is not None:
            return True
        if job.approval_state not in GRANTED:
            return True
        return await hosting.plan_job(job_id)

    async def _run(self, hosting: Hosting, execution_id: str) -> bool:
        waiting = await self._store.read(lambda: waiting_execution(execution_id))
        if waiting is None:
            return True
        return await hosting.run_execution(execution_id)

    async def plan_job(self, job_id: str) -> Planned:
        """Takes the steps of a job that can be taken now."""
        planned = Planned(again=True)
        for _ in range(STEPS_MAX):
            step = partial(plan_step, job_id=job_id, rules=self._rules, after=planned.after)
            planned = await self._store.run(step)
            wake_hosts(self._bus, planned.wake)
            figures.count(self.meter, planned)
            if not planned.again:
                break
        return planned

    async def run_execution(self, execution_id: str) -> None:
        """Sees one execution of a host through that the server has to reach. A host that fetches its work
        itself is only woken."""
        waiting = await self._store.read(lambda: open_execution(execution_id))
        if waiting is None:
            return
        if not self._rules.is_pushed(waiting.driver):
            wake_hosts(self._bus, [waiting.execution.host_id])
            return
        drive = self._drives.get(waiting.driver)
        if drive is None:
            raise NotSupported(f"this process cannot reach hosts of the driver '{waiting.driver}'")
        await drive(execution_id)
