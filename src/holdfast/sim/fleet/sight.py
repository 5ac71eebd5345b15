"""Looks at what the fleet shows, while it runs and at the end.

Never: sends a message, draws a random number or changes anything.
"""

from __future__ import annotations

import contextvars
from collections.abc import Sequence
from typing import Any, Final, TypeVar

import msgspec

from holdfast.core.fleet.model import ApprovalRequest, Execution, Job
from holdfast.core.fleet.status import shown
from holdfast.core.task import Task
from holdfast.fleet.rows import APPROVALS, BLOCKS, EXECUTIONS, JOBS, Table
from holdfast.sim.fleet_history import FleetHistory, Sighting
from holdfast.sim.node import Cluster
from holdfast.sim.server import NAME
from holdfast.store.columns import COLUMNS, to_task

S = TypeVar("S", bound=msgspec.Struct)
PERIOD_SECONDS: Final = 2.0
VERSIONS: Final = (
    """SELECT t.id, t.version FROM holdfast_execution e JOIN holdfast_task t ON t.id = e.task_id"""
)
SLOTS: Final = """SELECT resource, fence, claim_id FROM holdfast_lease
    WHERE resource >= 'host:' AND resource < 'host;' ORDER BY resource"""


def _select(struct: type[msgspec.Struct], table: str) -> str:
    return f"SELECT {', '.join(struct.__struct_fields__)} FROM {table}"


_TASK: Final = ", ".join(column.name for column in COLUMNS["task"])
TASKS_OF: Final = f"SELECT {_TASK} FROM holdfast_task WHERE id"
EXECUTIONS_OF: Final = f"{_select(Execution, 'holdfast_execution')} WHERE task_id"


class Sight:
    """The observer of the fleet."""

    def __init__(self, cluster: Cluster, history: FleetHistory) -> None:
        self._cluster = cluster
        self._history = history
        self._versions: dict[str, int] = {}

    def begin(self) -> None:
        """Looks from now on, until the loop ends."""
        self._cluster.loop.call_later(PERIOD_SECONDS, self._tick, context=contextvars.Context())

    def _tick(self) -> None:
        database = self._cluster.database
        if self._cluster.net.is_there(NAME) and not (database.disk and database.disk.is_dead):
            self._look()
        self.begin()

    def _look(self) -> None:
        """Notes what is shown of executions whose tasks have changed."""
        found: dict[str, int] = dict(self._cluster.database.rows(VERSIONS))
        changed = [id for id, version in found.items() if self._versions.get(id) != version]
        if not changed:
            return
        self._versions.update(found)
        jobs = {job.id: job for job in self._read(JOBS, Job, "holdfast_job")}
        tasks = {row[0]: to_task(row) for row in self._of(TASKS_OF, changed)}
        for execution in EXECUTIONS.read_all(self._of(EXECUTIONS_OF, changed)):
            self._note(tasks[execution.task_id], execution, jobs[execution.job_id])

    def _note(self, task: Task, execution: Execution, job: Job) -> None:
        kind = shown(task, execution, job).kind
        sightings = self._history.shown.setdefault(task.id, [])
        sighting = Sighting(self._cluster.loop.time(), kind, task.attempts, task.fence)
        if not sightings or sightings[-1][1:] != sighting[1:]:
            sightings.append(sighting)

    def _of(self, text: str, ids: Sequence[str]) -> list[Any]:
        """The rows of these tasks."""
        listed = ", ".join(f"'{id}'" for id in ids)
        return self._cluster.database.rows(f"{text} IN ({listed})")

    def _read(self, table: Table[S], struct: type[S], name: str) -> list[S]:
        return table.read_all(self._cluster.database.rows(_select(struct, name)))

    def report(self) -> None:
        """The rows at the end."""
        self._look()
        history = self._history
        history.jobs = {job.id: job for job in self._read(JOBS, Job, "holdfast_job")}
        executions = self._read(EXECUTIONS, Execution, "holdfast_execution")
        history.executions = {one.task_id: one for one in executions}
        for request in self._read(APPROVALS, ApprovalRequest, "holdfast_approval"):
            history.approvals.setdefault(request.job_id, []).append(request)
        history.blocks = BLOCKS.read_all(
            self._cluster.database.rows(_select(BLOCKS._struct, "holdfast_block"))
        )
        history.slots = [tuple(row) for row in self._cluster.database.rows(SLOTS)]
