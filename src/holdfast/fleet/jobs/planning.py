"""Plans jobs: counts what has ended, and lets the next hosts start, halts the job, or ends it.

Promises: a step is one transaction under the lock of the job's row, with the reducer of
`core.fleet.rollout.reducer`. Nothing is admitted unless the job needs no approval or has one that fits its
digest. Two planners of one job do no harm.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from holdfast.core.fleet.rules import FleetRules
from holdfast.core.ids import Ids
from holdfast.fleet.jobs.corrections import correct
from holdfast.fleet.jobs.drift import void_if_drifted
from holdfast.fleet.jobs.job_rows import GRANTED, lock_job, write_job
from holdfast.fleet.jobs.planned import Planned
from holdfast.fleet.jobs.rows import own
from holdfast.fleet.jobs.steps import JobStep
from holdfast.store.port import Dialect
from holdfast.store.script import Script, call
from holdfast.store.scripts.work import Work

JOBS_MAX: Final = 100
"""Jobs of one look."""


class JobLook(NamedTuple):
    """What a look at all jobs finds."""

    ids: list[str]
    """Jobs with something to do."""
    next_at: float | None
    """When the next of the others is looked at. None: no time is set, or too many jobs come before."""


def look_at_jobs(now: float, limit: int = JOBS_MAX) -> Script[JobLook]:
    """Jobs with ends that were not counted or have changed since, and jobs whose time to be looked at has
    come. One statement: a gateway looks after each change of any task."""
    rows = yield call(own("jobs_to_look_at"), limit=limit)
    ids = [job_id for _, job_id, due_at in rows if due_at is None or due_at <= now]
    later = [due_at for _, _, due_at in rows if due_at is not None and due_at > now]
    return JobLook(list(dict.fromkeys(ids)), min(later, default=None))


def plan_step(
    dialect: Dialect,
    ids: Ids,
    now: float,
    *,
    job_id: str,
    rules: FleetRules,
    after: int = -1,
) -> Script[Planned]:
    """One step of a job. One that waits for people counts what has ended; one that has ended is corrected,
    and left as it is otherwise."""
    job = yield from lock_job(job_id)
    if job is None:
        return Planned()
    corrected = yield from correct(dialect, ids, now, job)
    if corrected is not None:
        return Planned(corrected, again=True, after=after)
    if job.finished_at is not None:
        return Planned(job)
    step = JobStep(job, ids, rules, now)
    if not step.is_halted and step.may_admit and job.started_at is None:
        changed, events = yield from void_if_drifted(job, rules, ids, now)
        if changed.approval_state not in GRANTED:
            work = Work(now)
            work.mention(events)
            changed = yield from write_job(job, changed)
            yield from work.save(dialect, ids.record(now))
            return Planned(changed)
        step.job = changed
    return (yield from step.run(dialect, after))
