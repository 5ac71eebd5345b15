"""Jobs, executions and agents for tests of the agent protocol, and an agent that follows it."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from enum import Enum
from typing import Any

import msgspec
from msgspec.structs import replace

from holdfast.core import codec
from holdfast.core.decide import enqueued
from holdfast.core.fleet.agents.facts import RunCommand
from holdfast.core.fleet.agents.wire import (
    AgentChunk,
    AgentEnrol,
    AgentEnrolled,
    AgentResult,
    AgentRun,
    AgentSync,
    AgentSyncAnswer,
    TokenRef,
)
from holdfast.core.fleet.model import (
    FLEET_QUEUE,
    FLEET_TYPE,
    ApprovalState,
    Execution,
    Job,
    JobStatus,
)
from holdfast.core.fleet.rules import FleetRules
from holdfast.core.gate import of_node
from holdfast.core.rights import Operation, Role
from holdfast.core.task import Priority, Status, Task, TaskOptions
from holdfast.core.token import TokenKind
from holdfast.fleet.agents.agents import Agents
from holdfast.fleet.agents.parts import AgentMessage
from holdfast.fleet.rows import EXECUTIONS, JOBS
from holdfast.store.columns import COLUMNS
from holdfast.store.script import Script, call_rows
from holdfast.store.scripts import leases
from holdfast.store.scripts.leases import Teller
from holdfast.store.scripts.work import counted, record
from holdfast.store.store import Store
from holdfast.sync.access.tokens import NewToken, Tokens
from tests.backends import Bench
from tests.conformance.fleet.support import BY, PROJECT
from tests.statements import execute, query

RULES = FleetRules()


def command_of(job: Job) -> RunCommand:
    """The command of a job, whose spec these tests write as JSON."""
    return msgspec.json.decode(job.spec_json, type=RunCommand)


def make_agents(store: Store, **parts: Any) -> Agents:
    return Agents(store, RULES, command_of=command_of, **parts)


async def join_token(store: Store, uses: int = 10_000) -> str:
    """The id of a join token for agents."""
    new = NewToken(
        name="join",
        roles=(Role.JOIN.value,),
        projects=(PROJECT,),
        scopes=(Operation.AGENTS_ENROL.value,),
        kind=TokenKind.JOIN,
        uses=uses,
        expires_in_seconds=3_600.0,
    )
    return (await Tokens(store).create(new, BY)).token.id


async def enrol(
    agents: Agents, store: Store, name: str, join: str = "", **fields: Any
) -> AgentEnrolled:
    request = AgentEnrol(host=name, boot_id=fields.pop("boot_id", "b0"), journal_id="j0", **fields)
    return await agents.enrol(PROJECT, request, BY, join_token_id=join or await join_token(store))


COMMAND = RunCommand(command_type="exec", kind="argv", argv=("true",))
IDEMPOTENT = replace(COMMAND, is_idempotent=True, on_restart="rerun")


async def add_job(
    store: Store,
    hosts: Sequence[str],
    command: RunCommand = COMMAND,
    *,
    attempts: int = 1,
    priority: Priority = Priority.NORMAL,
    is_admitted: bool = True,
    **changes: Any,
) -> list[str]:
    """A job whose executions wait for their hosts. Returns their ids, in the order of the hosts."""
    now = store.now()
    job_id = "job_" + store.ids.task(now).replace("-", "")
    job = Job(
        id=job_id,
        project=PROJECT,
        external_id=None,
        request_hash="",
        spec_json=codec.dumps(msgspec.to_builtins(command)),
        digest="d1:x",
        approval_state=ApprovalState.NOT_REQUIRED,
        status=JobStatus.RUNNING,
        hosts=len(hosts),
        created_by="user:ann",
        created_at=now,
        not_after=now + 1e6,
    )
    job = replace(job, **changes)
    options = codec.dumps(TaskOptions(pinned=True, lost_after_seconds=900.0))
    tasks = [
        Task(
            id=store.ids.task(now),
            type=FLEET_TYPE,
            queue=FLEET_QUEUE,
            priority=priority,
            status=Status.QUEUED if is_admitted else Status.BLOCKED,
            payload_json="{}",
            metadata_json=None,
            options_json=options,
            attempts=0,
            max_attempts=attempts,
            deaths=0,
            version=1,
            fence=0,
            created_at=now,
            updated_at=now,
            due_at=now,
            gate=of_node(host) if is_admitted else None,
            assigned_to=host,
        )
        for host in hosts
    ]
    executions = [
        Execution(task_id=task.id, job_id=job_id, nth=nth, host_id=host, host=host, wave=1)
        for nth, (task, host) in enumerate(zip(tasks, hosts, strict=True))
    ]
    record_id = store.ids.record(now)
    await store.run(lambda dialect, ids, at: _insert(dialect, record_id, job, tasks, executions))
    return [task.id for task in tasks]


ADD_JOB = "written:INSERT INTO holdfast_job ({job}) SELECT {job:r} FROM {rows: @job} WHERE true"
ADD_TASKS = (
    "written:INSERT INTO holdfast_task ({task}, history) SELECT {task:r}, r.history "
    "FROM {rows: @task, history text} WHERE true"
)
ADD_EXECUTIONS = (
    "written:INSERT INTO holdfast_execution ({execution}) SELECT {execution:r} "
    "FROM {rows: @execution} WHERE true"
)


def _insert(
    dialect: Any, record_id: int, job: Job, tasks: list[Task], executions: list[Execution]
) -> Script[None]:
    now = job.created_at
    yield call_rows(ADD_JOB, [JOBS.row(job)])
    reference = yield from dialect.record_ref(record_id)
    rows = [(*_columns(task), str(reference)) for task in tasks]
    yield call_rows(ADD_TASKS, rows)
    yield call_rows(ADD_EXECUTIONS, [EXECUTIONS.row(one) for one in executions])
    yield from record(dialect, reference, now, [enqueued(t, now) for t in tasks], counted(tasks))


def _columns(task: Task) -> list[Any]:
    values = [getattr(task, column.name) for column in COLUMNS["task"]]
    return [value.value if isinstance(value, Enum) else value for value in values]


async def set_job(store: Store, execution_id: str, **changes: str | None) -> None:
    """Changes columns of the job of an execution."""
    execution = await get_execution(store, execution_id)
    for column, value in changes.items():
        text = (
            f"written:UPDATE holdfast_job SET {column} = r.value FROM {{rows: id text, value text}} "
            "WHERE holdfast_job.id = r.id"
        )
        await execute(store, text, [(execution.job_id, value)])


async def set_due(store: Store, execution_id: str, due_at: float) -> None:
    text = (
        "written:UPDATE holdfast_task SET due_at = r.due_at FROM {rows: id text, due_at double precision} "
        "WHERE holdfast_task.id = r.id"
    )
    await execute(store, text, [(execution_id, due_at)])


async def get_execution(store: Store, execution_id: str) -> Execution:
    [row] = await query(store, "holdfast.fleet.agents:runs_of", ids=[execution_id])
    return EXECUTIONS.read(row)


async def get_task(store: Store, task_id: str) -> Task:
    [task] = await query(store, "get_tasks", ids=[task_id])
    assert isinstance(task, Task)
    return task


async def slot_of(store: Store, host_id: str) -> tuple[int, str | None]:
    rows = await query(store, "holdfast.fleet.agents:read_slots", resources=[f"host:{host_id}"])
    return (rows[0][1], rows[0][2]) if rows else (0, None)


async def revoke_slot(store: Store, host_id: str) -> None:
    """As `holdfast locks revoke` does."""
    await store.run(
        lambda dialect, ids, now: leases.revoke(
            Teller(dialect, ids), f"host:{host_id}", "user:ann", "gone", now
        )
    )


def later(bench: Bench, seconds: float) -> None:
    bench.clock.set(bench.clock.now() + seconds)


class TestAgent:
    """An agent on a host: makes messages and keeps what it was offered."""

    __test__ = False

    def __init__(self, agents: Agents, enrolled: AgentEnrolled) -> None:
        self.agents = agents
        self.host_id = enrolled.host_id
        self.incarnation = enrolled.incarnation
        self.seq = 0

    def message(self, **parts: Any) -> AgentMessage:
        self.seq += 1
        sync = AgentSync(boot_id="b0", incarnation=self.incarnation, seq=self.seq)
        return AgentMessage(self.host_id, replace(sync, **parts))

    async def sync(self, **parts: Any) -> AgentSyncAnswer:
        """One sync; the answer is no error."""
        return await self.send(self.message(**parts))

    async def send(self, message: AgentMessage) -> AgentSyncAnswer:
        [answer] = await self.agents.sync([message])
        assert isinstance(answer, AgentSyncAnswer), answer
        return answer


def accept(execution: str, token: int = 1) -> dict[str, Any]:
    return {"accepts": [TokenRef(execution, token)]}


def running(execution: str, token: int = 1, phase: str = "started") -> dict[str, Any]:
    return {"running": [AgentRun(execution=execution, token=token, phase=phase)]}


def exited(execution: str, token: int = 1, **parts: Any) -> AgentResult:
    result = AgentResult(
        id=f"{execution}-{token}", execution=execution, token=token, state="exited", exit_code=0
    )
    return replace(result, **parts)


def chunk(
    execution: str, data: bytes, start: int = 0, *, token: int = 1, stream: str = "stdout"
) -> AgentChunk:
    return AgentChunk(
        execution=execution,
        token=token,
        stream=stream,
        start=start,
        data_base64=b64encode(data).decode(),
    )
