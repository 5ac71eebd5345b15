"""Enrolment and starts of agents, and outages of what serves them, against both databases."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from holdfast.core.errors import Forbidden, NodeFenced, Unauthenticated
from holdfast.core.fleet.agents.wire import AgentStart
from holdfast.core.node_identity import NodeState
from holdfast.core.task import FailureKind, Status
from holdfast.fleet.hosts.hosts import Hosts
from holdfast.store.store import Store
from holdfast.sync.access.tokens import Tokens
from holdfast.sync.nodes.nodes import Nodes
from tests.backends import Bench
from tests.conformance.fleet.agent_support import (
    TestAgent,
    accept,
    add_job,
    enrol,
    exited,
    get_task,
    join_token,
    later,
    make_agents,
    running,
    slot_of,
)
from tests.conformance.fleet.support import BY, PROJECT, add_host, events


async def test_an_agent_makes_its_host_and_gets_a_credential(store: Store) -> None:
    agents = make_agents(store)
    enrolled = await enrol(agents, store, "web-1", labels={"role": "web"}, facts={"os": "linux"})
    host = await Hosts(store).get(PROJECT, "web-1")
    assert (host.id, host.labels, host.facts) == (
        enrolled.host_id,
        {"role": "web"},
        {"os": "linux"},
    )
    assert enrolled.incarnation == 1
    found = await Tokens(store).find(enrolled.credential)
    assert found is not None
    principal = found.as_principal()
    assert (principal.name, principal.node) == ("agent:web-1", host.id)
    kinds = [event.kind for event in await events(store)]
    assert {"host.added", "node.registered"} <= set(kinds)


async def test_an_agent_takes_over_a_host_that_an_operator_added(store: Store) -> None:
    host = await add_host(store, "web-1", labels={"role": "db"})
    enrolled = await enrol(make_agents(store), store, "web-1", labels={"role": "web"})
    assert enrolled.host_id == host.id
    assert (await Hosts(store).get(PROJECT, "web-1")).labels == {"role": "db"}


async def test_a_lost_answer_to_an_enrolment_is_given_again(store: Store) -> None:
    agents = make_agents(store)
    join = await join_token(store, uses=1)
    first = await enrol(agents, store, "web-1", join)
    second = await enrol(agents, store, "web-1", join)
    assert (first.host_id, first.incarnation) == (second.host_id, second.incarnation)
    assert second.credential not in ("", first.credential)
    with pytest.raises(Unauthenticated):
        await enrol(agents, store, "web-2", join)


async def test_a_host_whose_credential_is_used_is_not_enrolled_again(store: Store) -> None:
    agents = make_agents(store)
    enrolled = await enrol(agents, store, "web-1")
    assert await Tokens(store).find(enrolled.credential) is not None
    with pytest.raises(Forbidden, match="has an agent"):
        await enrol(agents, store, "web-1")
    await Hosts(store).remove(enrolled.host_id, BY)
    again = await enrol(agents, store, "web-1", boot_id="b1")
    assert (again.host_id, again.incarnation) == (enrolled.host_id, 2)
    assert again.credential
    assert await Tokens(store).find(enrolled.credential) is None


async def test_every_start_is_a_new_incarnation_and_runs_outlive_it(store: Store) -> None:
    agents = make_agents(store)
    agent = TestAgent(agents, await enrol(agents, store, "web-1"))
    [execution] = await add_job(store, [agent.host_id])
    await agent.sync()
    await agent.sync(**accept(execution))
    await agent.sync(**running(execution))
    old = agent.message(**running(execution))
    for incarnation in (2, 3):
        started = await agents.start(agent.host_id, AgentStart(boot_id="b0", journal_id="j0"), BY)
        assert (started.incarnation, started.last_token) == (incarnation, 1)
    assert (await get_task(store, execution)).status is Status.RUNNING
    [answer] = await agents.sync([old])
    assert isinstance(answer, NodeFenced)
    agent.incarnation, agent.seq = 3, 0
    await agent.sync(**running(execution))


async def test_two_boots_that_take_turns_are_quarantined(bench: Bench, store: Store) -> None:
    agents = make_agents(store)
    enrolled = await enrol(agents, store, "web-1")
    boots = [AgentStart(boot_id=f"b{n % 2}", journal_id="j0") for n in range(1, 5)]
    for boot in boots[:3]:
        later(bench, 1.0)
        await agents.start(enrolled.host_id, boot, BY)
    with pytest.raises(NodeFenced, match="two processes"):
        await agents.start(enrolled.host_id, boots[3], BY)
    assert (await Nodes(store).get(enrolled.host_id)).state == NodeState.QUARANTINED
    [answer] = await agents.sync([TestAgent(agents, enrolled).message()])
    assert isinstance(answer, NodeFenced)


async def test_two_boots_whose_processes_name_themselves_are_quarantined_as_soon(
    bench: Bench, store: Store
) -> None:
    """Copies of a virtual machine: each process was fenced by the other and names itself."""
    agents = make_agents(store)
    enrolled = await enrol(agents, store, "web-1")
    starts = [
        AgentStart(boot_id=boot, journal_id="j0", session=session)
        for boot, session in (("b1", ""), ("b0", "s0"), ("b1", "s1"), ("b0", "s0"))
    ]
    for start in starts[:-1]:
        later(bench, 1.0)
        await agents.start(enrolled.host_id, start, BY)
    with pytest.raises(NodeFenced, match="two processes"):
        await agents.start(enrolled.host_id, starts[-1], BY)
    assert (await Nodes(store).get(enrolled.host_id)).state == NodeState.QUARANTINED


async def test_a_machine_that_reboots_often_is_not_quarantined(bench: Bench, store: Store) -> None:
    """A late copy of a start fences the process of the next boot, which then names itself."""
    agents = make_agents(store)
    enrolled = await enrol(agents, store, "web-1")
    for n in range(1, 21):
        late = [] if n % 5 else [(n - 1, ""), (n, f"s{n}")]
        for boot, session in ((n, ""), *late):
            later(bench, 5.0)
            start = AgentStart(boot_id=f"b{boot}", journal_id="j0", session=session)
            await agents.start(enrolled.host_id, start, BY)
    assert (await Nodes(store).get(enrolled.host_id)).state == NodeState.LIVE


async def test_two_processes_of_one_boot_that_fence_each_other_are_quarantined(
    bench: Bench, store: Store
) -> None:
    """Containers share the boot of their machine. A process names itself once it was fenced."""
    agents = make_agents(store)
    enrolled = await enrol(agents, store, "web-1")
    start = AgentStart(boot_id="b0", journal_id="j0")
    sessions = ["", "", *("s1", "s2") * 2]
    for session in sessions:
        later(bench, 1.0)
        await agents.start(enrolled.host_id, replace(start, session=session), BY)
    with pytest.raises(NodeFenced, match="two processes"):
        await agents.start(enrolled.host_id, replace(start, session="s1"), BY)
    assert (await Nodes(store).get(enrolled.host_id)).state == NodeState.QUARANTINED


async def test_an_agent_that_restarts_often_is_not_quarantined(bench: Bench, store: Store) -> None:
    """Each process may be fenced once by a late copy of a start, and then names itself."""
    agents = make_agents(store)
    enrolled = await enrol(agents, store, "web-1")
    start = AgentStart(boot_id="b0", journal_id="j0")
    for n in range(20):
        for session in ("", f"s{n}", f"s{n}"):
            later(bench, 0.5)
            await agents.start(enrolled.host_id, replace(start, session=session), BY)
    assert (await Nodes(store).get(enrolled.host_id)).state == NodeState.LIVE


async def test_a_new_journal_is_marked_by_the_newest_token(store: Store) -> None:
    agents = make_agents(store)
    agent = TestAgent(agents, await enrol(agents, store, "web-1"))
    [execution] = await add_job(store, [agent.host_id])
    await agent.sync()
    await agent.sync(**accept(execution))
    await agents.start(agent.host_id, AgentStart(boot_id="b0", journal_id="j1"), BY)
    agent.incarnation, agent.seq = 2, 0
    answer = await agent.sync()
    assert not answer.offers
    assert not answer.probe, "it could not tell"
    assert await slot_of(store, agent.host_id) == (1, execution)


async def test_a_copy_of_a_journal_does_not_make_a_command_start_twice(store: Store) -> None:
    """Containers of one machine have one boot id, and those of one image one state folder."""
    agents = make_agents(store)
    first = TestAgent(agents, await enrol(agents, store, "web-1"))
    [execution] = await add_job(store, [first.host_id])
    await first.sync()
    assert (await first.sync(**accept(execution))).go
    started = await agents.start(first.host_id, AgentStart(boot_id="b0", journal_id="j0"), BY)
    first.incarnation, first.seq = started.incarnation, 0
    [asked] = (await first.sync()).probe
    said = exited(execution, asked.token, state="never_started", exit_code=None, is_unheard=True)
    answer = await first.sync(results=[said])
    assert not answer.offers
    assert not (await first.sync()).offers
    assert (await get_task(store, execution)).status is Status.FAILED
    assert await slot_of(store, first.host_id) == (1, execution)


# -- outages -----------------------------------------------------------------------------------------


async def running_agent(store: Store) -> tuple[TestAgent, str]:
    agents = make_agents(store)
    agent = TestAgent(agents, await enrol(agents, store, "web-1"))
    await agents.serve()
    [execution] = await add_job(store, [agent.host_id])
    await agent.sync()
    await agent.sync(**accept(execution))
    await agent.sync(**running(execution))
    return agent, execution


async def test_while_agents_are_served_leases_end(bench: Bench, store: Store) -> None:
    agent, execution = await running_agent(store)
    for _ in range(13):
        later(bench, 5.0)
        await agent.agents.serve()
    await store.sweep()
    assert (await get_task(store, execution)).status is Status.STUCK


async def test_an_outage_ends_no_lease_and_the_time_after_it_neither(
    bench: Bench, store: Store
) -> None:
    agent, execution = await running_agent(store)
    later(bench, 5_000.0)
    await store.sweep()
    assert (await get_task(store, execution)).status is Status.RUNNING, "no gateway serves agents"
    later(bench, 5_000.0)
    await agent.agents.serve()
    await store.sweep()
    assert (await get_task(store, execution)).status is Status.RUNNING, "the grace has begun"
    for _ in range(61):
        later(bench, 5.0)
        await agent.agents.serve()
    await store.sweep()
    assert (await get_task(store, execution)).status is Status.STUCK, "the grace is over"


async def test_a_stuck_task_is_not_lost_by_an_outage(bench: Bench, store: Store) -> None:
    agent, execution = await running_agent(store)
    for _ in range(13):
        later(bench, 5.0)
        await agent.agents.serve()
    await store.sweep()
    assert (await get_task(store, execution)).status is Status.STUCK
    later(bench, 10_000.0)
    await store.sweep()
    assert (await get_task(store, execution)).status is Status.STUCK
    await agent.agents.serve()
    await agent.sync(**running(execution))
    assert (await get_task(store, execution)).status is Status.RUNNING


async def test_seen_agents_are_written_together_and_come_back(bench: Bench, store: Store) -> None:
    agents = make_agents(store)
    enrolled = await enrol(agents, store, "web-1")
    later(bench, 1_000.0)
    await store.upkeep.lose_nodes(forget_before=0.0)
    assert [event.kind for event in await events(store, "node.lost")] == ["node.lost"]
    agents.saw([enrolled.host_id])
    await agents.serve()
    node = await Nodes(store).get(enrolled.host_id)
    assert (node.lost_at, node.seen_at) == (None, store.now())
    assert [event.kind for event in await events(store, "node.state")] == ["node.state"]


async def test_a_host_that_is_ahead_of_a_restored_store_gets_a_newer_token(store: Store) -> None:
    """The backup is older than what the journal of the host knows."""
    agents = make_agents(store)
    agent = TestAgent(agents, await enrol(agents, store, "web-1"))
    [execution] = await add_job(store, [agent.host_id])
    [old] = (await agent.sync()).offers
    assert (await agent.sync(last_token=40)).offers == []
    [offer] = (await agent.sync(last_token=40)).offers
    assert (old.token, offer.token, offer.execution) == (1, 41, execution)
    assert (await get_task(store, execution)).attempts == 1
    assert (await agent.sync(**accept(execution, 41))).go
    await agent.sync(results=[exited(execution, 41)])
    assert (await get_task(store, execution)).status is Status.COMPLETED


async def test_a_run_of_before_the_backup_is_asked_about_and_not_offered_again(
    store: Store,
) -> None:
    agents = make_agents(store)
    agent = TestAgent(agents, await enrol(agents, store, "web-1"))
    [execution] = await add_job(store, [agent.host_id])
    await agent.sync()
    await agent.sync(**accept(execution))
    answer = await agent.sync(last_token=40)
    assert (answer.offers, [ref.token for ref in answer.probe]) == ([], [1])
    unknown = exited(execution, state="unknown", exit_code=None)
    await agent.sync(last_token=40, results=[unknown])
    failure = (await get_task(store, execution)).failure
    assert failure is not None
    assert failure.kind is FailureKind.LOST
    assert (await slot_of(store, agent.host_id)) == (40, None)


@pytest.mark.parametrize("is_removed", [False, True])
async def test_a_host_that_has_left_service_since_its_offer_gets_no_go(
    store: Store, is_removed: bool
) -> None:
    agents = make_agents(store)
    agent = TestAgent(agents, await enrol(agents, store, "web-1"))
    [execution] = await add_job(store, [agent.host_id])
    assert (await agent.sync()).offers
    if is_removed:
        await Hosts(store).remove(agent.host_id, BY)
    else:
        await Hosts(store).edit(agent.host_id, BY, state="cordoned")
    answer = await agent.sync(**accept(execution))
    assert (answer.go, [one.reason for one in answer.withdraw]) == (
        [],
        ["the host is out of service"],
    )
    task = await get_task(store, execution)
    assert (task.status, task.attempts) == (Status.QUEUED, 0)
    assert (await slot_of(store, agent.host_id))[1] is None
