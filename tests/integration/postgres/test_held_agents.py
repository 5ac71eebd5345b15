"""A transaction of another session holds rows of one host: its agent waits, and no other agent does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from holdfast.clock import SystemClock
from holdfast.core.fleet.agents.wire import AgentSync, AgentSyncAnswer
from holdfast.errors import StoreBusy
from holdfast.fleet.agents.agents import Agents
from holdfast.fleet.agents.door import AgentDoor
from holdfast.store.store import Store
from tests.conformance.fleet.agent_support import (
    TestAgent,
    accept,
    add_job,
    enrol,
    join_token,
    make_agents,
)
from tests.integration.postgres.held_support import Caller, caller, soon

__all__ = ["caller"]
HOSTS = 9
HELD_ROWS = {
    "agent": "SELECT FROM holdfast_agent WHERE host_id = $1 FOR UPDATE",
    "node": "SELECT FROM holdfast_node WHERE id = $1 FOR UPDATE",
    "task": "SELECT FROM holdfast_task WHERE assigned_to = $1 FOR UPDATE",
    "slot": "SELECT FROM holdfast_lease WHERE resource = 'host:' || $1 FOR UPDATE",
    "execution": "SELECT FROM holdfast_execution WHERE host_id = $1 FOR UPDATE",
}


class Site:
    """Agents that have journaled their offers, at one door."""

    def __init__(self, agents: Agents, fleet: list[TestAgent]) -> None:
        self.door = AgentDoor(agents, SystemClock())
        self.fleet = fleet

    def accept(self, agent: TestAgent, said: AgentSync) -> asyncio.Task[AgentSyncAnswer]:
        return asyncio.create_task(self.door.sync(agent.host_id, said))


@pytest.fixture
async def site(store: Store) -> AsyncIterator[Site]:
    agents = make_agents(store)
    join = await join_token(store)
    fleet = [TestAgent(agents, await enrol(agents, store, f"web-{n}", join)) for n in range(HOSTS)]
    await add_job(store, [agent.host_id for agent in fleet])
    made = Site(agents, fleet)
    yield made
    await made.door.close()


async def journaled(agent: TestAgent) -> AgentSync:
    """What an agent says after its offer."""
    [offer] = (await agent.sync()).offers
    return agent.message(**accept(offer.execution, offer.token)).sync


@pytest.mark.parametrize("row", HELD_ROWS)
async def test_a_held_row_of_one_host_holds_up_no_other_agent(
    site: Site, caller: Caller, row: str
) -> None:
    said = [await journaled(agent) for agent in site.fleet]
    await caller.connection.execute(HELD_ROWS[row], site.fleet[0].host_id)
    asked = [site.accept(agent, sync) for agent, sync in zip(site.fleet, said, strict=True)]
    answers = await soon(asyncio.gather(*asked[1:]))
    assert all(answer.go for answer in answers)
    assert not asked[0].done()
    await caller.rollback()
    assert (await soon(asked[0])).go


async def test_a_row_that_stays_held_is_a_refusal_that_says_try_again(
    site: Site, caller: Caller
) -> None:
    await caller.connection.execute(HELD_ROWS["agent"], site.fleet[0].host_id)
    with pytest.raises(StoreBusy, match="web-0") as refused:
        await soon(site.door.sync(site.fleet[0].host_id, site.fleet[0].message().sync))
    assert refused.value.retryable
