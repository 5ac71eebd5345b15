"""A gateway that dies at each statement of a batch of syncs, or whose answers are lost after the commit."""

from __future__ import annotations

from typing import Any

from holdfast.core.fleet.agents.wire import AgentSyncAnswer
from holdfast.core.task import Status
from holdfast.fleet.agents.parts import AgentMessage
from holdfast.store.store import Store
from tests.conformance.fleet.agent_support import (
    TestAgent,
    accept,
    add_job,
    chunk,
    enrol,
    exited,
    get_execution,
    get_task,
    join_token,
    make_agents,
    running,
    slot_of,
)
from tests.conformance.fleet.support import events
from tests.conformance.fleet.test_job_crashes import Crash, DyingStore
from tests.statements import query

TABLES = ("agent", "execution", "lease", "output", "blob", "task")
STATEMENTS_MAX = 40


async def seen(store: Store) -> object:
    """All that a half-done batch could leave behind."""
    rows = []
    for table in TABLES:
        key = {"lease": "resource", "blob": "sha256", "agent": "host_id", "task": "id"}
        columns = {"agent": "seq", "lease": "fence", "output": "size", "blob": "refs"}
        column = columns.get(table, "fence")
        order = key.get(table, "task_id")
        text = f"-- returns: a b\nSELECT {order} AS a, {column} AS b FROM holdfast_{table} ORDER BY 1, 2"
        rows.append([tuple(row) for row in await query(store, f"written:{text}")])
    return rows, len(await events(store))


async def send(store: Store, hosts: list[TestAgent], messages: list[AgentMessage]) -> list[Any]:
    """Dies at every statement, then lets the batch through, then repeats it: its answer was lost."""
    before = await seen(store)
    for at in range(STATEMENTS_MAX):
        dying = DyingStore(store, at)
        agents = make_agents(dying)  # type: ignore[arg-type]
        try:
            answers = await agents.sync(messages)
        except Crash:
            assert await seen(store) == before
            continue
        after = await seen(store)
        assert not dying.has_crashed
        again = await make_agents(store).sync(messages)
        assert await seen(store) == after
        assert [_said(one) for one in again] == [_said(one) for one in answers]
        return answers
    raise AssertionError("the batch has more statements than that")


def _said(answer: object) -> object:
    assert isinstance(answer, AgentSyncAnswer)
    return answer.offers, answer.go, answer.acks, answer.withdraw, answer.commands


async def test_a_crash_at_any_statement_leaves_nothing_and_a_lost_answer_is_given_again(
    store: Store,
) -> None:
    agents = make_agents(store)
    join = await join_token(store)
    hosts = [TestAgent(agents, await enrol(agents, store, f"web-{n}", join)) for n in range(2)]
    executions = await add_job(store, [host.host_id for host in hosts])
    pairs = list(zip(hosts, executions, strict=True))
    await send(store, hosts, [host.message() for host in hosts])
    await send(store, hosts, [host.message(**accept(e)) for host, e in pairs])
    output = [host.message(**running(e), chunks=[chunk(e, b"a" * 100)]) for host, e in pairs]
    await send(store, hosts, output)
    ends = [
        host.message(chunks=[chunk(e, b"b", start=100)], results=[exited(e, sizes={"stdout": 101})])
        for host, e in pairs
    ]
    await send(store, hosts, ends)
    for host, execution in pairs:
        task = await get_task(store, execution)
        assert (task.status, task.attempts, task.fence) == (Status.COMPLETED, 1, 1)
        assert (await get_execution(store, execution)).late_json is None
        assert await slot_of(store, host.host_id) == (1, None)
