"""An execution that waits for its host, as those see it who bring it there."""

from __future__ import annotations

from typing import NamedTuple

from holdfast.core.fleet.model import Execution, Host, HostDriver
from holdfast.core.task import Status, Task
from holdfast.fleet.agents.rows import read_slots
from holdfast.fleet.hosts import scripts as host_scripts
from holdfast.fleet.jobs.job_rows import tasks_of
from holdfast.fleet.jobs.rows import own
from holdfast.fleet.rows import EXECUTIONS
from holdfast.store.script import Script, call


class WaitingExecution(NamedTuple):
    """An admitted execution."""

    execution: Execution
    task: Task
    host: Host

    @property
    def driver(self) -> HostDriver:
        return self.host.driver


def read_execution(execution_id: str) -> Script[Execution | None]:
    rows = yield call(own("get_execution"), task_id=execution_id)
    return EXECUTIONS.read(rows[0]) if rows else None


def waiting_execution(execution_id: str) -> Script[WaitingExecution | None]:
    """The execution if it is queued at its host; None if it is not, or not any more."""
    found = yield from _find(execution_id)
    return found if found is not None and found.task.status is Status.QUEUED else None


def open_execution(execution_id: str) -> Script[WaitingExecution | None]:
    """The same for an execution that has the slot of its host, too: a process has to see it through."""
    found = yield from _find(execution_id)
    if found is None or found.task.status is Status.QUEUED:
        return found
    slots = yield from read_slots([found.execution.host_id], lock=False)
    slot = slots.get(found.execution.host_id)
    return found if slot is not None and slot.claim_id == execution_id else None


def _find(execution_id: str) -> Script[WaitingExecution | None]:
    execution = yield from read_execution(execution_id)
    if execution is None:
        return None
    task = (yield from tasks_of([execution])).get(execution_id)
    host = (yield from host_scripts.pinned([execution.host_id])).get(execution.host_id)
    if task is None or host is None:
        return None
    return WaitingExecution(execution, task, host)
