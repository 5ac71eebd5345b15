"""A block that begins to count between an offer and its go."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from holdfast.core import codec
from holdfast.core.fleet.agents.wire import AgentResult, TokenRef
from holdfast.core.gate import is_of_block
from holdfast.core.task import Status
from holdfast.fleet.blocks.blocks import Blocks, NewBlock
from holdfast.fleet.hosts.hosts import Hosts
from holdfast.fleet.jobs.verdicts import read_blocks
from holdfast.store.store import Store
from tests.backends import Bench
from tests.conformance.fleet.agent_support import (
    IDEMPOTENT,
    TestAgent,
    accept,
    add_job,
    enrol,
    exited,
    get_execution,
    get_task,
    make_agents,
    running,
    set_job,
)
from tests.conformance.fleet.support import BY, PROJECT
from tests.statements import execute

EFFECTS = [("refuse", (Status.ABORTED, False)), ("hold", (Status.QUEUED, True))]
"""What becomes of the execution: its status, and whether it is held."""


async def at_minute(bench: Bench, store: Store, **fields: Any) -> float:
    """Adds a block whose window opens at a full minute, within two hours. Returns when."""
    at = datetime.fromtimestamp(store.now() + 3600, UTC).replace(second=0, microsecond=0)
    rule = f"FREQ=DAILY;BYHOUR={at.hour};BYMINUTE={at.minute}"
    window = {"rrule": rule, "duration_seconds": 3600.0}
    await Blocks(store).add(
        PROJECT, NewBlock(host="web-1", reason="freeze", window=window, **fields), BY
    )
    return at.timestamp()


@pytest.mark.parametrize(("effect", "becomes"), EFFECTS)
async def test_a_window_that_opens_after_the_offer_keeps_its_go_back(
    bench: Bench, store: Store, effect: str, becomes: tuple[Status, bool]
) -> None:
    agents = make_agents(store)
    agent = TestAgent(agents, await enrol(agents, store, "web-1"))
    opens_at = await at_minute(bench, store, effect=effect)
    bench.clock.set(opens_at - 5)
    [execution] = await add_job(store, [agent.host_id])
    [offer] = (await agent.sync()).offers
    bench.clock.set(opens_at + 20)
    answer = await agent.sync(**accept(execution, offer.token))
    assert answer.go == []
    assert "freeze" in answer.withdraw[0].reason
    await agent.sync()
    task = await get_task(store, execution)
    assert (task.status, is_of_block(task.held_by or "")) == becomes
    assert (await get_execution(store, execution)).go_at is None


@pytest.mark.parametrize(("effect", "becomes"), EFFECTS)
async def test_a_block_that_is_added_after_the_offer_keeps_its_go_back(
    store: Store, effect: str, becomes: tuple[Status, bool]
) -> None:
    agents = make_agents(store)
    agent = TestAgent(agents, await enrol(agents, store, "web-1"))
    [execution] = await add_job(store, [agent.host_id])
    [offer] = (await agent.sync()).offers
    await Blocks(store).add(PROJECT, NewBlock(host="web-1", reason="freeze", effect=effect), BY)
    answer = await agent.sync(**accept(execution, offer.token))
    assert (answer.go, len(answer.withdraw)) == ([], 1)
    await agent.sync()
    task = await get_task(store, execution)
    assert (task.status, is_of_block(task.held_by or "")) == becomes


@pytest.mark.parametrize("what", ["block", "pause", "drain", "cordon"])
async def test_an_offer_with_its_go_is_not_repeated_after_its_start_was_forbidden(
    store: Store, what: str
) -> None:
    """The answer with the offer of an idempotent command was lost. Once its agent has said that it has not
    started it, it waits or ends as one that was never offered."""
    agents = make_agents(store)
    agent = TestAgent(agents, await enrol(agents, store, "web-1"))
    [execution] = await add_job(store, [agent.host_id], IDEMPOTENT)
    [lost] = (await agent.sync()).offers
    assert lost.go
    if what == "block":
        await Blocks(store).add(PROJECT, NewBlock(host="web-1", reason="freeze"), BY)
    elif what == "cordon":
        await Hosts(store).edit(agent.host_id, BY, state="cordoned")
    else:
        halt = codec.dumps({"mode": what, "reason": "x", "actor": "u", "cause": "operator"})
        status = "PAUSED" if what == "pause" else "HALTING"
        await set_job(store, execution, halt_json=halt, status=status)
    answer = await agent.sync()
    assert answer.offers == []
    assert answer.probe == [TokenRef(execution, lost.token)]
    never = AgentResult(
        id="r-1", execution=execution, token=lost.token, state="never_started", reason="unknown"
    )
    answer = await agent.sync(results=[never])
    assert (answer.acks, answer.offers) == (["r-1"], [])
    assert (await get_task(store, execution)).status in (Status.QUEUED, Status.ABORTED)
    assert (await get_execution(store, execution)).go_at is None


async def test_a_server_without_the_zone_of_a_window_starts_nothing_and_hears_its_agents(
    store: Store,
) -> None:
    """One such block stops the results of no host, and ends nothing that runs."""
    agents = make_agents(store)
    agent = TestAgent(agents, await enrol(agents, store, "web-1"))
    [run], [waiting] = [await add_job(store, [agent.host_id]) for _ in range(2)]
    [offer] = (await agent.sync()).offers
    await agent.sync(**accept(run, offer.token))
    window = {"rrule": "FREQ=DAILY", "duration_seconds": 60.0}
    new = NewBlock(host="web-1", reason="freeze", window=window, on_running="abort")
    block = await Blocks(store).add(PROJECT, new, BY)
    unknown = codec.dumps(window | {"timezone": "Mars/Olympus"})
    await execute(store, SET_WINDOW, [(block.id, unknown)])
    assert await Blocks(store).next_due() is None
    assert (await agent.sync(**running(run, offer.token))).blocks
    answer = await agent.sync(results=[exited(run, offer.token)])
    assert (answer.offers, len(answer.acks)) == ([], 1)
    assert (await get_task(store, run)).status is Status.COMPLETED
    assert (await get_task(store, waiting)).status is Status.ABORTED
    in_force = await store.read(lambda: read_blocks(PROJECT, "exec", store.now()))
    assert in_force.stopping(await Hosts(store).get(PROJECT, "web-1")) is None


SET_WINDOW = (
    "written:UPDATE holdfast_block SET window_json = r.value FROM {rows: id text, value text} "
    "WHERE holdfast_block.id = r.id"
)
