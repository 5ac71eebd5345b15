"""Writes a new job: its row, its executions, and what is due next, as parts of one transaction.

Promises: the executions are two statements, however many hosts there are. They have no events of their own:
`job.created` tells of them. Of two jobs with one external id, one is written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec

from holdfast.core import codec
from holdfast.core.fleet.model import FLEET_QUEUE, FLEET_TYPE, Host, Job
from holdfast.core.ids import Ids
from holdfast.core.task import Priority, Status, TaskOptions
from holdfast.fleet.jobs.rows import own
from holdfast.fleet.rows import JOBS
from holdfast.store.script import Script, call, call_rows
from holdfast.store.scripts.work import DeltaKey, Recorder


class NewExecutions(msgspec.Struct, frozen=True):
    """The executions of a new job. All have the same options."""

    hosts: Sequence[Host]
    """By `nth`."""
    priority: Priority
    max_attempts: int
    options: TaskOptions


def add_job(job: Job) -> Script[bool]:
    """Writes the row. False: the project has a job with the external id."""
    return bool((yield call(own("add_job"), **JOBS.columns(job))))


def add_executions(
    job: Job, new: NewExecutions, ids: Ids, now: float, *, record_id: int, recorder: Recorder
) -> Script[tuple[Counter[DeltaKey], int]]:
    """Writes the tasks and their rows. Returns the change of the counters, and the reference to the
    record."""
    record_id = yield from recorder.record_ref(record_id)
    rows: list[tuple[Any, ...]] = [
        (ids.task(now), nth, host.id, host.name) for nth, host in enumerate(new.hosts)
    ]
    yield call_rows(
        own("add_execution_tasks"),
        rows,
        type=FLEET_TYPE,
        queue=FLEET_QUEUE,
        priority=new.priority.value,
        payload_json=codec.dumps({"job": job.id}),
        options_json=codec.dumps(new.options),
        max_attempts=new.max_attempts,
        project=job.project,
        record_id=str(record_id),
        now=now,
    )
    yield call_rows(own("add_executions"), rows, job_id=job.id)
    key: DeltaKey = (job.project, FLEET_QUEUE, FLEET_TYPE, new.priority, Status.BLOCKED)
    return Counter({key: len(rows)}), record_id
