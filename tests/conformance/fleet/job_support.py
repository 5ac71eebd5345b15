"""A small fleet for tests of jobs: hosts, a pipeline, and hands that do what agents would do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from holdfast.bus.local import LocalBus
from holdfast.core.claim_by_id import ClaimById
from holdfast.core.command import Command, Complete, Fail, Instruction, Report
from holdfast.core.fleet.hosts.entry import HostEntry
from holdfast.core.fleet.jobs.request import JobRequest
from holdfast.core.fleet.model import Execution, Job
from holdfast.core.fleet.rules import FleetRules
from holdfast.core.start_once import RunPhase, phase_json
from holdfast.core.task import Failure, FailureKind, Task
from holdfast.core.transition import Transition
from holdfast.fleet.hosts.hosts import Hosts
from holdfast.fleet.jobs.create import Created, Jobs
from holdfast.fleet.jobs.job_rows import read_job
from holdfast.fleet.pipeline import Pipeline
from holdfast.fleet.rows import EXECUTIONS
from holdfast.store.columns import COLUMNS
from holdfast.store.script import call, one
from holdfast.store.store import Store
from tests.conformance.fleet.support import BY, PROJECT

RULES = FleetRules()
AGENTS = """written:INSERT INTO holdfast_agent (host_id, project, journal_id, journal_token, boot_id,
    boot_token, version, incarnation, seq, block_epoch, capabilities_json, seen_at, enrolled_at)
SELECT id, project, 'journal', 0, 'boot', 0, '', 1, 0, 0, '{}', :now, :now FROM holdfast_host WHERE true
ON CONFLICT (host_id) DO UPDATE SET seen_at = excluded.seen_at"""

ALL_OF_JOB = """written:-- returns: {execution}
SELECT {execution} FROM holdfast_execution WHERE job_id = :job_id ORDER BY nth"""


class Inline:
    """Plans in the call, as the engine does."""

    def __init__(self, fleet: FleetBench) -> None:
        self._fleet = fleet

    async def plan_job(self, job_id: str) -> bool:
        await self._fleet.pipeline.plan_job(job_id)
        return True

    async def run_execution(self, execution_id: str) -> bool:
        self._fleet.driven.append(execution_id)
        return False


class FleetBench:
    """The use cases of jobs over one store."""

    def __init__(self, store: Store, rules: FleetRules = RULES) -> None:
        self.store = store
        self.rules = rules
        self.bus = LocalBus()
        self.jobs = Jobs(store, rules, self.bus)
        self.pipeline = Pipeline(store, rules, self.bus, owner="test")
        self.driven: list[str] = []

    async def add_hosts(self, count: int, **fields: Any) -> list[str]:
        names = [f"web-{n:03}" for n in range(1, count + 1)]
        entries = [HostEntry(name=name, **fields) for name in names]
        for start in range(0, count, 500):
            await Hosts(self.store).import_(PROJECT, entries[start : start + 500], BY)
        await self.hear_agents()
        return names

    async def hear_agents(self) -> None:
        """The agents of all hosts are there."""
        await self.store.run(lambda _dialect, _ids, now: one(call(AGENTS, now=now)))

    async def create(self, hosts: Sequence[str] | None = None, **fields: Any) -> Created:
        """A job of a type that needs no approval, unless the fields say it."""
        given: dict[str, Any] = {"command_type": "noop"}
        if "selector" not in fields:
            given["hosts"] = list(hosts or ())
        return await self.jobs.create(JobRequest(**(given | fields)), BY)

    async def publish(self) -> int:
        return await self.pipeline.publish_outbox(Inline(self))

    async def plan(self, job_id: str) -> Job:
        planned = await self.pipeline.plan_job(job_id)
        assert planned.job is not None
        return planned.job

    async def job(self, job_id: str) -> Job:
        job = await self.store.read(lambda: read_job(job_id))
        assert job is not None
        return job

    async def executions(self, job_id: str) -> list[Execution]:
        rows = await self.store.read(lambda: one(call(ALL_OF_JOB, job_id=job_id)))
        return EXECUTIONS.read_all(rows)

    async def rows(self, table: str) -> list[tuple[Any, ...]]:
        """All rows of a table of the fleet."""
        columns = " ".join(column.name for column in COLUMNS[table])
        text = f"written:-- returns: {columns}\nSELECT {{{table}}} FROM holdfast_{table}"
        found = await self.store.read(lambda: one(call(text)))
        return sorted((tuple(row) for row in found), key=repr)

    async def tasks(self, job_id: str) -> dict[str, Task]:
        ids = [execution.task_id for execution in await self.executions(job_id)]
        found: dict[str, Task] = {}
        for start in range(0, len(ids), 500):
            found |= await self.store.reads.get(ids[start : start + 500])
        return found

    async def statuses(self, job_id: str) -> dict[str, int]:
        return dict(Counter(task.status.value for task in (await self.tasks(job_id)).values()))

    async def outcomes(self, job_id: str) -> dict[str | None, int]:
        return dict(Counter(execution.outcome for execution in await self.executions(job_id)))

    async def queued(self, job_id: str) -> list[Task]:
        """Those that are queued and in the window."""
        found = await self.tasks(job_id)
        away = {e.task_id for e in await self.executions(job_id) if e.away}
        return [t for t in found.values() if t.status.value == "queued" and t.id not in away]

    # -- what agents do --------------------------------------------------------------------------

    async def start(self, task: Task) -> Task:
        """The agent of the host takes the execution and gets its go."""
        assert task.assigned_to is not None
        claimed = await self.store.by_id.claim(
            ClaimById(
                task_id=task.id,
                node=task.assigned_to,
                claim_id=f"{task.id}#1",
                lease_seconds=60.0,
            )
        )
        assert isinstance(claimed, Task), claimed
        await self._say(claimed, Report(progress_json=phase_json(RunPhase.GO)))
        return claimed

    async def succeed(self, task: Task) -> None:
        await self.complete(await self.start(task))

    async def complete(self, run: Task) -> None:
        await self._say(run, Complete("null"))

    async def fail(self, task: Task, kind: FailureKind = FailureKind.ERROR) -> None:
        await self.fail_run(await self.start(task), kind)

    async def fail_run(self, run: Task, kind: FailureKind) -> None:
        await self._say(run, Fail(Failure(kind, "exit 1"), final=True))

    async def _say(self, task: Task, command: Command) -> None:
        [ruling] = await self.store.apply([Instruction(task.id, command, fence=task.fence)])
        assert isinstance(ruling, Transition), ruling

    async def run_out(
        self, job_id: str, end: Callable[[Task], bool] = lambda _: True, rounds: int = 1_000
    ) -> Job:
        """Plans and runs until nothing is queued. `end`: whether a host succeeds."""
        for _ in range(rounds):
            job = await self.plan(job_id)
            queued = await self.queued(job_id)
            if not queued:
                return job
            for task in queued:
                await (self.succeed(task) if end(task) else self.fail(task))
        raise AssertionError("the job did not end")
