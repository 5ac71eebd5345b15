"""Corrects what a job has counted, after operators have taken over late results of its executions.

Promises: each execution is corrected once: counters, waves and budgets have its new end, and an event says
so. What the rollout has done stays: admitted hosts, a halt, and the status of a job that has ended.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from holdfast.core.fleet.model import Execution, Job
from holdfast.core.fleet.rollout.correction import Correction, corrected
from holdfast.core.fleet.status import ExecutionKind, end_bucket, ended_kind
from holdfast.core.ids import Ids
from holdfast.core.task import Status, Task
from holdfast.fleet.jobs.job_rows import (
    counts_json,
    counts_of,
    executions,
    job_event,
    rollout_of,
    tasks_of,
    with_rollout,
    write_job,
)
from holdfast.fleet.jobs.rows import own
from holdfast.store.port import Dialect
from holdfast.store.script import Script, call
from holdfast.store.scripts.work import Work

CHANGED_MAX: Final = 1_000
"""Executions that one transaction corrects."""


def correct(dialect: Dialect, ids: Ids, now: float, job: Job) -> Script[Job | None]:
    """The job, whose row is locked, as it was corrected. None: there was nothing to correct."""
    rows = yield call(own("changed_executions"), job_id=job.id, limit=CHANGED_MAX)
    if not rows:
        return None
    found = executions(rows)
    tasks = yield from tasks_of(found)
    kinds, corrections = Counter(counts_of(job)), []
    for execution in found:
        task = tasks[execution.task_id]
        before, after = _failed_kind(task, execution), ended_kind(task, execution)
        kinds[before.value] -= 1
        kinds[after.value] += 1
        corrections.append(Correction(execution.nth, end_bucket(before), end_bucket(after)))
    rollout = rollout_of(job)
    state = corrected(rollout.policy, rollout.state, corrections)
    number = rollout.corrected + len(found)
    counts = {kind: n for kind, n in kinds.items() if n > 0}
    after_job = replace(
        with_rollout(job, replace(rollout, state=state, corrected=number)),
        counts_json=counts_json(counts),
    )
    yield call(own("tally_executions"), ids=[execution.task_id for execution in found])
    after_job = yield from write_job(job, after_job)
    work = Work(now)
    said = {"hosts": job.hosts, "ended": sum(counts.values()), "kinds": counts}
    work.mention(
        [job_event("job.corrected", job, now, status=job.status.value, n=len(found), **said)]
    )
    yield from work.save(dialect, ids.record(now))
    return after_job


def tally(counted: Mapping[str, Task]) -> Script[None]:
    """Marks executions as counted, by the id of their task as it was read. An operator may have taken over
    the late result of one since: it is corrected by the next step."""
    yield call(own("tally_executions"), ids=list(counted))
    # Their rows are locked now: what changes them later finds that they were counted.
    if failed := [id for id, task in counted.items() if task.status is Status.FAILED]:
        yield call(own("recount_executions"), ids=failed)


def _failed_kind(task: Task, execution: Execution) -> ExecutionKind:
    """How it was counted: only a failed task ends again, and it keeps its failure."""
    return ended_kind(replace(task, status=Status.FAILED), execution)
