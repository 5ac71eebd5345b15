"""The agent of a host that was removed, came back or got another driver: it has ended."""

from __future__ import annotations

import pytest

from holdfast.core.errors import NodeFenced
from holdfast.core.fleet.agents.wire import AgentEnrolled, AgentStart
from holdfast.core.fleet.model import HostDriver
from holdfast.core.task import Status
from holdfast.errors import NotFound
from holdfast.fleet.agents.agents import Agents
from holdfast.fleet.hosts.hosts import Hosts
from holdfast.queue.by import By
from holdfast.store.store import Store
from holdfast.sync.access.tokens import Tokens
from tests.conformance.fleet.agent_support import (
    TestAgent,
    accept,
    add_job,
    enrol,
    exited,
    get_task,
    make_agents,
)
from tests.conformance.fleet.support import BY, PROJECT, add_host

START = AgentStart(boot_id="b0", journal_id="j0", facts={"role": "db"})


async def enrolled_host(store: Store) -> tuple[Agents, AgentEnrolled, TestAgent]:
    agents = make_agents(store)
    enrolled = await enrol(agents, store, "web-1", facts={"role": "db"})
    host = TestAgent(agents, enrolled)
    await host.sync()
    return agents, enrolled, host


async def refused(host: TestAgent) -> bool:
    """Whether the agent may neither start nor speak."""
    with pytest.raises(NotFound):
        await host.agents.start(host.host_id, START, By("agent"))
    [answer] = await host.agents.sync([host.message()])
    return isinstance(answer, NotFound | NodeFenced)


async def test_the_agent_of_a_removed_host_ends_with_its_credential(store: Store) -> None:
    agents, enrolled, old = await enrolled_host(store)
    await Hosts(store).remove(old.host_id, BY)
    assert await Tokens(store).find(enrolled.credential) is None
    assert await refused(old)
    back = await add_host(store, "web-1")
    assert (back.id, back.facts) == (old.host_id, {})
    await add_job(store, [back.id])
    assert await refused(old)
    new = TestAgent(agents, await enrol(agents, store, "web-1", boot_id="b9"))
    assert len((await new.sync()).offers) == 1


async def test_a_command_on_a_removed_host_is_reported(store: Store) -> None:
    agents, enrolled, host = await enrolled_host(store)
    [execution] = await add_job(store, [host.host_id])
    await host.sync()
    await host.sync(**accept(execution))
    await Hosts(store).remove(host.host_id, BY)
    started = await agents.start(host.host_id, START, By("agent"))
    host.incarnation, host.seq = started.incarnation, 0
    assert (await host.sync(results=[exited(execution)])).acks
    assert (await get_task(store, execution)).status is Status.COMPLETED
    assert await refused(host)
    await add_host(store, "web-1")
    assert await Tokens(store).find(enrolled.credential) is None


async def test_a_host_with_another_driver_has_no_agent(store: Store) -> None:
    agents, enrolled, host = await enrolled_host(store)
    hosts = Hosts(store)
    await hosts.edit(host.host_id, BY, driver="ssh", address="root@10.0.0.1")
    assert await Tokens(store).find(enrolled.credential) is None
    await add_job(store, [host.host_id])
    [answer] = await agents.sync([host.message()])
    assert isinstance(answer, NotFound)
    await agents.start(host.host_id, START, By("ssh"))
    [answer] = await agents.sync([host.message()])
    assert isinstance(answer, NodeFenced)
    await hosts.edit(host.host_id, BY, driver="agent")
    new = TestAgent(agents, await enrol(agents, store, "web-1", boot_id="b9"))
    assert (await hosts.get(PROJECT, "web-1")).driver is HostDriver.AGENT
    assert len((await new.sync()).offers) == 1
