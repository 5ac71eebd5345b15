"""An execution that waits for its host, as those see it who bring it there."""

from __future__ import annotations

from typing import NamedTuple

from holdfast.core.fleet.model import Execution, HostDriver
from holdfast.core.task import Status, Task
from holdfast.fleet import host_scripts
from holdfast.fleet.jobs.job_rows import tasks_of
from holdfast.fleet.jobs.rows import own
from holdfast.fleet.rows import EXECUTIONS
from holdfast.store.script import Script, call


class WaitingExecution(NamedTuple):
    """An admitted execution that nothing runs yet."""

    execution: Execution
    task: Task
    driver: HostDriver


def read_execution(execution_id: str) -> Script[Execution | None]:
    rows = yield call(own("get_execution"), task_id=execution_id)
    return EXECUTIONS.read(rows[0]) if rows else None


def waiting_execution(execution_id: str) -> Script[WaitingExecution | None]:
    """The execution if it is queued at its host; None if it is not, or not any more."""
    execution = yield from read_execution(execution_id)
    if execution is None:
        return None
    task = (yield from tasks_of([execution])).get(execution_id)
    hosts = yield from host_scripts.pinned([execution.host_id])
    host = hosts.get(execution.host_id)
    if task is None or host is None or task.status is not Status.QUEUED:
        return None
    return WaitingExecution(execution, task, host.driver)
