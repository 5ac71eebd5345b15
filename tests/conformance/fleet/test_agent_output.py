"""Output of runs on hosts: chunks, gaps, blobs that many hosts share, secrets."""

from __future__ import annotations

import hashlib
from typing import Any

from msgspec.structs import replace

from holdfast.core.fleet.agents.facts import RunCommand
from holdfast.core.fleet.agents.run_output import StreamState, read_states
from holdfast.core.output import HEAD_BYTES, TAIL_BYTES
from holdfast.store.store import Store
from tests.conformance.fleet.agent_support import (
    IDEMPOTENT,
    TestAgent,
    accept,
    add_job,
    chunk,
    enrol,
    exited,
    get_execution,
    join_token,
    make_agents,
    running,
    set_due,
)
from tests.conformance.fleet.support import events
from tests.statements import query

BLOBS = "written:-- returns: sha256 size refs\nSELECT sha256, size, refs FROM holdfast_blob ORDER BY sha256"
LEFT = "written:-- returns: n\nSELECT count(*) AS n FROM holdfast_output"


async def make_agent(store: Store, name: str = "web-1", **parts: Any) -> TestAgent:
    agents = make_agents(store, **parts)
    return TestAgent(agents, await enrol(agents, store, name))


async def started(store: Store, agent: TestAgent) -> str:
    [execution] = await add_job(store, [agent.host_id])
    await agent.sync()
    await agent.sync(**accept(execution))
    return execution


async def states(store: Store, execution: str) -> dict[str, StreamState]:
    return read_states((await get_execution(store, execution)).output_json)


async def blobs(store: Store) -> dict[str, tuple[int, int]]:
    return {row[0]: (row[1], row[2]) for row in await query(store, BLOBS)}


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


async def test_chunks_are_stored_as_they_come_and_become_a_blob(store: Store) -> None:
    agent = await make_agent(store)
    execution = await started(store, agent)
    answer = await agent.sync(**running(execution), chunks=[chunk(execution, b"hello ")])
    assert answer.log_next == {f"{execution}/stdout": 6}
    assert len(await events(store, "task.output")) == 1
    late = chunk(execution, b"too far", start=99)
    answer = await agent.sync(**running(execution), chunks=[late])
    assert answer.log_next == {f"{execution}/stdout": 6}, "the agent goes back"
    again = chunk(execution, b"lo world", start=3)
    await agent.sync(chunks=[again], results=[exited(execution, sizes={"stdout": 11, "stderr": 0})])
    found = await states(store, execution)
    assert found["stdout"] == StreamState(
        bytes=11, kept=11, sha256=sha(b"hello world"), complete=True
    )
    assert found["stderr"].complete
    assert await blobs(store) == {sha(b"hello world"): (11, 1)}
    assert (await query(store, LEFT))[0][0] == 0


async def test_equal_output_of_many_hosts_is_stored_once(store: Store) -> None:
    agents = make_agents(store)
    join = await join_token(store)
    hosts = [TestAgent(agents, await enrol(agents, store, f"web-{n}", join)) for n in range(4)]
    executions = await add_job(store, [host.host_id for host in hosts], IDEMPOTENT)
    await agents.sync([host.message() for host in hosts])
    pairs = list(zip(hosts, executions, strict=True))
    for some in (pairs[:3], pairs[3:]):
        await agents.sync(
            [
                host.message(chunks=[chunk(e, b"ok\n")], results=[exited(e, sizes={"stdout": 3})])
                for host, e in some
            ]
        )
    assert await blobs(store) == {sha(b"ok\n"): (3, 4)}
    assert not await events(store, "task.output")


async def test_output_that_follows_its_result_is_taken_until_it_is_whole(store: Store) -> None:
    agent = await make_agent(store)
    execution = await started(store, agent)
    answer = await agent.sync(results=[exited(execution, sizes={"stdout": 6})])
    assert answer.acks
    assert not (await states(store, execution))["stdout"].complete
    answer = await agent.sync(chunks=[chunk(execution, b"abc")])
    assert answer.log_next == {f"{execution}/stdout": 3}
    await agent.sync(chunks=[chunk(execution, b"def", start=3)])
    found = await states(store, execution)
    assert (found["stdout"].sha256, found["stdout"].complete) == (sha(b"abcdef"), True)
    answer = await agent.sync(chunks=[chunk(execution, b"def", start=3)])
    assert answer.log_next == {f"{execution}/stdout": 6}
    assert await blobs(store) == {sha(b"abcdef"): (6, 1)}


async def test_dropped_bytes_are_a_gap(store: Store) -> None:
    agent = await make_agent(store)
    execution = await started(store, agent)
    gap = replace(chunk(execution, b"", start=3), gap=100)
    await agent.sync(**running(execution), chunks=[chunk(execution, b"abc"), gap])
    answer = await agent.sync(
        chunks=[chunk(execution, b"xyz", start=103)],
        results=[exited(execution, sizes={"stdout": 106})],
    )
    assert answer.log_next == {f"{execution}/stdout": 106}
    found = (await states(store, execution))["stdout"]
    assert (found.bytes, found.kept, found.gaps) == (106, 6, [(3, 100)])
    assert (found.complete, found.sha256) == (False, sha(b"abcxyz"))


async def test_of_long_output_head_and_tail_are_kept(store: Store) -> None:
    agent = await make_agent(store)
    execution = await started(store, agent)
    size = 262_144
    parts = [bytes([n]) * size for n in range(6)]
    for n, part in enumerate(parts):
        await agent.sync(**running(execution), chunks=[chunk(execution, part, n * size)])
    await agent.sync(results=[exited(execution, sizes={"stdout": 6 * size})])
    found = (await states(store, execution))["stdout"]
    assert found.bytes == 6 * size
    assert found.kept <= HEAD_BYTES + TAIL_BYTES
    whole = b"".join(parts)
    assert found.sha256 == sha(whole[:HEAD_BYTES] + whole[-TAIL_BYTES:])
    assert found.gaps == [(HEAD_BYTES, 2 * size)]
    assert not found.complete


async def test_a_cancelled_run_keeps_what_it_wrote(store: Store) -> None:
    agent = await make_agent(store)
    execution = await started(store, agent)
    await agent.sync(**running(execution), chunks=[chunk(execution, b"half")])
    killed = exited(execution, exit_code=None, signal=15, killed=True, sizes={"stdout": 4})
    await agent.sync(results=[killed])
    assert (await states(store, execution))["stdout"].sha256 == sha(b"half")


async def test_secrets_are_removed_before_output_is_stored(store: Store) -> None:
    def redact(command: RunCommand, data: bytes) -> bytes:
        return data.replace(b"hunter2", b"*******")

    agent = await make_agent(store, redact=redact)
    execution = await started(store, agent)
    await agent.sync(**running(execution), chunks=[chunk(execution, b"pw=hunt")])
    await agent.sync(
        chunks=[chunk(execution, b"er2;", start=7)],
        results=[exited(execution, sizes={"stdout": 11})],
    )
    found = (await states(store, execution))["stdout"]
    assert found.sha256 == sha(b"pw=*******;")


async def test_a_second_attempt_takes_the_place_of_the_first_output(store: Store) -> None:
    agent = await make_agent(store)
    [execution] = await add_job(store, [agent.host_id], IDEMPOTENT, attempts=2)
    await agent.sync()
    failed = exited(execution, exit_code=1, sizes={"stdout": 3})
    await agent.sync(chunks=[chunk(execution, b"bad")], results=[failed], capacity=0)
    assert await blobs(store) == {sha(b"bad"): (3, 1)}
    await set_due(store, execution, 0.0)
    assert (await agent.sync()).offers[0].token == 2
    done = exited(execution, 2, sizes={"stdout": 4})
    await agent.sync(chunks=[chunk(execution, b"good", token=2)], results=[done])
    assert {name: refs for name, (_, refs) in (await blobs(store)).items() if refs} == {
        sha(b"good"): 1
    }
