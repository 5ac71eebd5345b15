"""What is shown of jobs: the job with its counts, its executions, its plan.

Promises: the counts of a job come from counters and from the hosts that are open (`counts`). A page of
executions looks at a bounded number of rows, and at no more than it shows unless it is filtered by status or
kind; a filter that matches few gives short pages with a cursor.
Never: checks the project; the caller does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from holdfast.core.check import check_choice, check_page
from holdfast.core.errors import AmbiguousId
from holdfast.core.fleet.hosts.names import fold
from holdfast.core.fleet.hosts.service import HostService
from holdfast.core.fleet.jobs.drift import HostDrift, PinnedHost, drift
from holdfast.core.fleet.jobs.spec import JobSpec, read_spec
from holdfast.core.fleet.model import (
    JOB_PREFIX,
    SLOT,
    Execution,
    HostDriver,
    HostState,
    Job,
    JobStatus,
)
from holdfast.core.fleet.rollout.policy import place_of, wave_of
from holdfast.core.fleet.rollout.state import BudgetUse, usage
from holdfast.core.fleet.rules import FleetRules
from holdfast.core.fleet.status import (
    KINDS,
    ExecutionKind,
    ExecutionStatus,
    ShownStatus,
    shown,
)
from holdfast.core.task import Status, Task
from holdfast.errors import NotFound
from holdfast.fleet.agents.rows import read_jobs
from holdfast.fleet.hosts import groups, scripts as host_scripts
from holdfast.fleet.jobs.counts import count_kinds, eta_seconds
from holdfast.fleet.jobs.job_rows import (
    Rollout,
    executions,
    read_job,
    rollout_of,
    tasks_of,
)
from holdfast.fleet.jobs.rows import own
from holdfast.fleet.jobs.verdicts import read_blocks
from holdfast.fleet.jobs.waiting import read_execution
from holdfast.fleet.rows import JOBS
from holdfast.store.script import Script, call
from holdfast.store.store import Store

LOOKED_MAX: Final = 5_000
"""Executions that one page looks at."""
PAGE: Final = 1_000
"""Executions that one statement reads for a page of those of a status or kind."""
NAMED_MAX: Final = 1_000
"""Hosts of a job whose names are shown with it."""
LAST: Final = "job_~"
"""Behind every id of a job."""


class JobDetail(msgspec.Struct, frozen=True, kw_only=True):
    """A job with its counts."""

    job: Job
    spec: JobSpec
    rollout: Rollout
    statuses: dict[str, int]
    """Executions by status."""
    kinds: dict[str, int]
    """Executions by fine kind, those that there are."""
    budget: dict[str, BudgetUse]
    eta_seconds: float | None
    """When the job may end, by what has ended so far. None: it cannot be said."""
    folded: str = ""
    """The names of hosts that the request has named."""


Look: TypeAlias = Mapping[str, float | str]
"""`FleetRules.look`."""


class TargetHost(msgspec.Struct, frozen=True):
    """The host of an execution that waits, as far as it says why."""

    driver: HostDriver
    state: HostState
    seen_at: float | None
    holder: str | None
    """The execution that has its slot."""
    unreachable_at: float | None = None
    """When the server could not reach a host that it drives. None: it could, or has not tried."""
    service: HostService = HostService.READY


class ExecutionView(msgspec.Struct, frozen=True):
    """An execution with its task and what is shown of it."""

    execution: Execution
    task: Task
    shown: ShownStatus


class ExecutionPage(msgspec.Struct, frozen=True):
    """A page of executions, by `nth`."""

    items: list[ExecutionView]
    next: int | None
    """The cursor of the next page. None: there is none."""


class PlannedHost(msgspec.Struct, frozen=True):
    """What the plan of a job says about one host."""

    execution: Execution
    wave: int
    place: int
    """Its place in the order of the rollout, from 0."""
    would_run: bool
    reason: str
    """Why not, or where it stands."""


class JobReads:
    """The reads of jobs."""

    def __init__(self, store: Store, rules: FleetRules) -> None:
        self._store = store
        self._rules = rules

    async def find(self, ref: str, projects: Sequence[str] | None = None) -> Job:
        """The job of an id, or of an external id in one of the projects. NotFound, AmbiguousId."""
        return await self._store.read(lambda: _find(ref, projects))

    async def many(self, ids: Sequence[str]) -> Sequence[Job]:
        """Those of these jobs that exist, in this order."""
        found = await self._store.read(lambda: read_jobs(ids))
        return [found[job_id] for job_id in ids if job_id in found]

    async def list(
        self,
        *,
        projects: Sequence[str] | None = None,
        status: str | None = None,
        parent_id: str | None = None,
        host_id: str | None = None,
        before: str | None = None,
        limit: int = 100,
    ) -> list[Job]:
        """One page of jobs, the latest first. `host_id`: those with an execution on this host. `before`: the
        last id of the page before."""
        check_page(limit)
        wanted = None if status is None else check_choice("status", status, JobStatus).value

        def script() -> Script[list[Job]]:
            rows = yield call(
                own("jobs_page"),
                before=before or LAST,
                projects=None if projects is None else list(projects),
                status=wanted,
                parent_id=parent_id,
                host_id=host_id,
                limit=limit,
            )
            return JOBS.read_all(rows)

        return await self._store.read(script)

    async def detail(self, job_id: str) -> JobDetail:
        """The job with its counts."""
        now = self._store.now()
        return await self._store.read(lambda: _detail(job_id, now, self._rules))

    async def execution(self, execution_id: str) -> tuple[Job, ExecutionView]:
        """One execution with its job. NotFound."""
        look = self._rules.look(self._store.now())
        return await self._store.read(lambda: _execution(execution_id, look))

    async def executions(
        self,
        job: Job,
        *,
        status: str | None = None,
        kind: str | None = None,
        host: str | None = None,
        wave: int | None = None,
        after: int | None = None,
        limit: int = 100,
    ) -> ExecutionPage:
        """One page of the executions that match. `host`: a name or an id."""
        check_page(limit)
        wanted = _Filter(
            None if status is None else check_choice("status", status, ExecutionStatus),
            None if kind is None else check_choice("kind", kind, ExecutionKind),
        )
        look = self._rules.look(self._store.now())
        start = -1 if after is None else after
        return await self._store.read(
            lambda: _page(job, wanted, look, host=host, wave=wave, after=start, limit=limit)
        )

    async def plan(
        self, job: Job, *, after: int | None = None, limit: int = 100
    ) -> Sequence[PlannedHost]:
        """One page of the plan, in the order of the targets: wave, and whether the host would run."""
        check_page(limit)
        now = self._store.now()
        start = -1 if after is None else after
        return await self._store.read(lambda: _plan(job, now, after=start, limit=limit))

    async def drift(self, job: Job) -> HostDrift:
        """How the hosts that the job would select now differ from its targets. Reads all of them."""
        return await self._store.read(lambda: _drift(job))


class _Filter(msgspec.Struct, frozen=True):
    status: ExecutionStatus | None
    kind: ExecutionKind | None

    @property
    def takes_all(self) -> bool:
        return self.status is None and self.kind is None

    def matches(self, view: ExecutionView) -> bool:
        if self.status is not None and view.shown.status is not self.status:
            return False
        return self.kind is None or view.shown.kind is self.kind


# -- jobs --------------------------------------------------------------------------------------------


def _find(ref: str, projects: Sequence[str] | None) -> Script[Job]:
    job = (yield from read_job(ref)) if ref.startswith(JOB_PREFIX) else None
    if job is not None and (projects is None or job.project in projects):
        return job
    rows = yield call(
        own("jobs_by_external_id"),
        external_id=ref,
        projects=None if projects is None else list(projects),
    )
    if not rows:
        raise NotFound(f"there is no job '{ref}'")
    if len(rows) > 1:
        raise AmbiguousId(f"several projects have a job '{ref}': name the project, or give its id")
    return JOBS.read(rows[0])


def _detail(job_id: str, now: float, rules: FleetRules) -> Script[JobDetail]:
    job = yield from read_job(job_id)
    if job is None:
        raise NotFound(f"there is no job '{job_id}'")
    rollout = rollout_of(job)
    kinds = yield from count_kinds(job, rules.look(now))
    statuses = Counter(dict.fromkeys((status.value for status in ExecutionStatus), 0))
    for kind, n in kinds.items():
        statuses[KINDS[ExecutionKind(kind)].status.value] += n
    spec, names = read_spec(job.spec_json), list[str]()
    if spec.selector is None and job.hosts <= NAMED_MAX:
        names = [host for _, host in (yield call(own("pinned_names"), job_id=job.id))]
    return JobDetail(
        job=job,
        spec=spec,
        folded=fold(names),
        rollout=rollout,
        statuses=dict(statuses),
        kinds=kinds,
        budget=usage(rollout.policy, rollout.state, rollout.unknown),
        # Hosts that a block holds wait for its end, which says more than the pace of the others.
        eta_seconds=None
        if kinds.get(ExecutionKind.HELD_BY_BLOCK)
        else eta_seconds(job, rollout, now),
    )


# -- executions --------------------------------------------------------------------------------------


def target_hosts(ids: Sequence[str], look: Look) -> Script[dict[str, TargetHost]]:
    """The hosts of executions that wait, by id."""
    rows = yield call(own("target_hosts"), ids=sorted(set(ids)), slot=SLOT, **look)
    return {
        id: TargetHost(
            HostDriver(driver), HostState(state), seen_at, holder, tried_at, HostService(service)
        )
        for id, driver, state, seen_at, holder, tried_at, service in rows
    }


def _views(job: Job, found: Sequence[Execution], look: Look) -> Script[list[ExecutionView]]:
    tasks = yield from tasks_of(found)
    waiting = [e.host_id for e in found if tasks[e.task_id].status is Status.QUEUED]
    hosts = (yield from target_hosts(waiting, look)) if waiting else {}
    views: list[ExecutionView] = []
    for execution in found:
        task, host = tasks[execution.task_id], hosts.get(execution.host_id)
        is_busy = host is not None and host.holder not in (None, execution.task_id)
        service = HostService.READY if host is None else host.service
        views.append(
            ExecutionView(
                execution,
                task,
                shown(task, execution, job, service=service, host_busy=is_busy),
            )
        )
    return views


def _execution(execution_id: str, look: Look) -> Script[tuple[Job, ExecutionView]]:
    execution = yield from read_execution(execution_id)
    job = None if execution is None else (yield from read_job(execution.job_id))
    if execution is None or job is None:
        raise NotFound(f"there is no execution '{execution_id}'")
    [view] = yield from _views(job, [execution], look)
    return job, view


def _page(
    job: Job,
    wanted: _Filter,
    look: Look,
    *,
    host: str | None,
    wave: int | None,
    after: int,
    limit: int,
) -> Script[ExecutionPage]:
    items: list[ExecutionView] = []
    looked = 0
    size = limit if wanted.takes_all else PAGE
    while looked < LOOKED_MAX:
        rows = yield call(
            own("executions_page"), job_id=job.id, after=after, wave=wave, host=host, limit=size
        )
        found = executions(rows)
        looked += len(found)
        for view in (yield from _views(job, found, look)):
            after = view.execution.nth
            if wanted.matches(view):
                items.append(view)
                if len(items) == limit:
                    return ExecutionPage(items, after)
        if len(found) < size:
            return ExecutionPage(items, None)
    return ExecutionPage(items, after)


def _plan(job: Job, now: float, *, after: int, limit: int) -> Script[list[PlannedHost]]:
    rows = yield call(
        own("executions_page"), job_id=job.id, after=after, wave=None, host=None, limit=limit
    )
    found = executions(rows)
    views = yield from _views(job, found, {"since": 0.0, "pushed": ""})
    spec, policy = read_spec(job.spec_json), rollout_of(job).policy
    blocks = yield from read_blocks(job.project, spec.command_type, now)
    ids = [execution.host_id for execution in found]
    hosts = yield from host_scripts.pinned(ids, with_facts=blocks.ask_facts)
    blocks.over(hosts.values())
    planned: list[PlannedHost] = []
    for view in views:
        execution, reason, would_run = view.execution, view.shown.reason, True
        host = hosts.get(execution.host_id)
        verdict = None if host is None else blocks.verdict(host)
        if execution.ended_at is not None:
            would_run = False
        elif host is None or host.state is HostState.GONE:
            would_run, reason = False, "the host was removed"
        elif verdict is not None:
            would_run, reason = False, blocks.judged(verdict)[1].detail
        planned.append(
            PlannedHost(
                execution,
                wave_of(policy, job.hosts, execution.nth),
                place_of(policy, job.hosts, execution.nth),
                would_run,
                reason,
            )
        )
    return planned


def _drift(job: Job) -> Script[HostDrift]:
    spec = read_spec(job.spec_json)
    rows: list[Any] = yield call(own("pinned_names"), job_id=job.id)
    pinned = [PinnedHost(host_id, name) for host_id, name in rows]
    inventory = yield from host_scripts.inventory(job.project, with_facts=False)
    known = {host.id: host for host in inventory}
    selected = None
    if spec.selector is not None:
        selected = [host.id for host in (yield from groups.select(job.project, spec.selector))]
    return drift(pinned, known, selected)
