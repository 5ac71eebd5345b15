"""Rows of jobs as scripts read and write them, and the part of a row that is the rollout."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from holdfast.core import codec
from holdfast.core.event import NewEvent
from holdfast.core.fleet.jobs.status import job_status
from holdfast.core.fleet.model import (
    JOB_ENDED,
    ApprovalState,
    Execution,
    Job,
)
from holdfast.core.fleet.rollout.policy import Policy
from holdfast.core.fleet.rollout.state import RolloutState
from holdfast.core.task import DEFAULT_PROJECT, Task
from holdfast.errors import NotFound, VersionConflict
from holdfast.fleet.jobs.rows import own
from holdfast.fleet.rows import EXECUTIONS, JOBS
from holdfast.store.script import Script, call

GRANTED: Final = frozenset({ApprovalState.NOT_REQUIRED, ApprovalState.APPROVED})
"""States of the approval in which a job may start hosts."""


class Rollout(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the row of a job keeps of its rollout."""

    policy: Policy
    """As it counts now: an operator may have changed it since the approval."""
    state: RolloutState
    looked_at: float = 0.0
    """When the hosts that are open were looked at."""
    unknown: int = 0
    """Hosts whose outcome is unknown."""
    back: int = 0
    """Hosts that have left the window, could run now, and wait for their turn."""
    said_at: float = 0.0
    """When an event last had the progress."""
    unsaid: bool = False
    """Whether hosts have ended since."""
    corrected: int = 0
    """Ends that were counted and have changed since: late results that operators have taken over."""


_rollout: Final = msgspec.json.Decoder(Rollout)
_counts: Final = msgspec.json.Decoder(dict[str, int])


def rollout_of(job: Job) -> Rollout:
    assert job.rollout_json is not None, "a job has its rollout from its creation on"
    return _rollout.decode(job.rollout_json)


def with_rollout(job: Job, rollout: Rollout) -> Job:
    """The job with this rollout, and the status and the halt that follow from it."""
    state = rollout.state
    halt = None if state.halt is None else msgspec.json.encode(state.halt).decode()
    return replace(
        job,
        rollout_json=msgspec.json.encode(rollout).decode(),
        halt_json=halt,
        status=job_status(job.approval_state, state),
    )


def counts_of(job: Job) -> dict[str, int]:
    """Ended executions that were counted, by kind."""
    return _counts.decode(job.counts_json)


def read_job(job_id: str) -> Script[Job | None]:
    rows = yield call(own("get_job"), id=job_id)
    return JOBS.read(rows[0]) if rows else None


def lock_job(job_id: str) -> Script[Job | None]:
    """The job under its lock: the first lock of every step."""
    rows = yield call(own("lock_job"), id=job_id)
    return JOBS.read(rows[0]) if rows else None


def lock_for(job_id: str, expected_version: int | None) -> Script[Job]:
    """The job for an order of a person. NotFound, or VersionConflict if it was changed since."""
    return _checked((yield from lock_job(job_id)), job_id, expected_version)


def known_job(job_id: str, expected_version: int | None = None) -> Script[Job]:
    """The job without a lock, for a reader. NotFound, or VersionConflict."""
    return _checked((yield from read_job(job_id)), job_id, expected_version)


def _checked(job: Job | None, job_id: str, expected_version: int | None) -> Job:
    if job is None:
        raise NotFound(f"there is no job '{job_id}'")
    if expected_version is not None and expected_version != job.version:
        error = VersionConflict(
            f"job {job_id} is at version {job.version}, not {expected_version}: read it again"
        )
        error.current = {"status": job.status.value, "version": job.version}
        raise error
    return job


_PROGRESS: Final = frozenset({"rollout_json", "counts_json", "due_at", "version"})
"""Columns whose change leaves the version of a job."""


def write_job(before: Job, after: Job) -> Script[Job]:
    """Writes what changed, if anything did. The version rises with what people see as the job, never with its
    progress: else no expected version of a running job could hold."""
    if after == before:
        return before
    changed = [
        name
        for name in Job.__struct_fields__
        if name not in _PROGRESS and getattr(before, name) != getattr(after, name)
    ]
    if changed or policy_changed(before, after):
        after = replace(after, version=before.version + 1)
    columns = JOBS.columns(after)
    yield call(own("write_job"), **{name: columns[name] for name in _WRITTEN})
    return after


_WRITTEN: Final = (
    *(
        "id",
        "spec_json",
        "digest",
        "approval_state",
        "approval_id",
        "excluded_voters_json",
        "editors_json",
        "status",
        "halt_json",
        "rollout_json",
    ),
    *("counts_json", "break_glass_json", "started_at", "finished_at", "due_at", "version"),
)


def policy_changed(before: Job, after: Job) -> bool:
    if before.rollout_json == after.rollout_json:
        return False
    return rollout_of(before).policy != rollout_of(after).policy


def ended(job: Job) -> bool:
    return job.status in JOB_ENDED


def executions(rows: Iterable[Sequence[Any]]) -> list[Execution]:
    return [EXECUTIONS.read(row) for row in rows]


def tasks_of(found: Iterable[Execution], *, lock: bool = False) -> Script[dict[str, Task]]:
    """The tasks of executions by id. Locked ones are locked in the order of their ids."""
    ids = sorted(execution.task_id for execution in found)
    if not ids:
        return {}
    tasks: list[Task] = yield call("lock_tasks" if lock else "get_tasks", ids=ids)
    return {task.id: task for task in tasks}


def job_event(kind: str, job: Job, now: float, **data: Any) -> NewEvent:
    """An event of a job."""
    project = "" if job.project == DEFAULT_PROJECT else job.project
    return NewEvent(kind, now, "", "", {"job": job.id, **data}, project)


def counts_json(counts: dict[str, int]) -> str:
    return codec.dumps(counts)
