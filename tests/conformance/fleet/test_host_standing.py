"""Where a host stands, in one word, as every face shows it."""

from __future__ import annotations

from holdfast.core.fleet.rules import RULES
from holdfast.core.node_identity import NodeState
from holdfast.fleet.hosts.details import HostReads
from holdfast.fleet.hosts.hosts import Hosts
from holdfast.store.store import Store
from holdfast.sync.nodes.nodes import Nodes
from tests.backends import Bench
from tests.conformance.fleet.agent_support import (
    TestAgent,
    accept,
    add_job,
    enrol,
    exited,
    later,
    make_agents,
)
from tests.conformance.fleet.support import BY, PROJECT, add_host


async def test_the_standing_of_a_host_says_what_keeps_it_from_the_next_command(
    bench: Bench, store: Store
) -> None:
    agents = make_agents(store)
    await add_host(store, "web-0")
    agent = TestAgent(agents, await enrol(agents, store, "web-1"))
    assert await standings(store) == {"web-0": "no_agent", "web-1": "ready"}
    [execution] = await add_job(store, [agent.host_id])
    await agent.sync()
    assert (await standings(store))["web-1"] == "busy"
    await agent.sync(capacity=0, **accept(execution))
    assert (await standings(store))["web-1"] == "closed", "its agent drains"
    await agent.sync(results=[exited(execution)])
    assert (await standings(store))["web-1"] == "ready"
    nodes = Nodes(store)
    for state, word in (
        (NodeState.DRAINING, "closed"),
        (NodeState.CORDONED, "closed"),
        (NodeState.QUARANTINED, "shut_out"),
        (NodeState.LIVE, "ready"),
    ):
        await nodes.set_state(agent.host_id, state, BY)
        assert (await standings(store))["web-1"] == word, state
    await Hosts(store).edit(agent.host_id, BY, state="cordoned")
    assert (await standings(store))["web-1"] == "cordoned"
    await Hosts(store).edit(agent.host_id, BY, state="active")
    later(bench, 1_000.0)
    assert (await standings(store))["web-1"] == "silent"


async def standings(store: Store) -> dict[str, str]:
    hosts = await Hosts(store).list(PROJECT)
    found = await HostReads(store, RULES).details(hosts)
    return {each.host.name: each.standing or "" for each in found}
