"""Polls that are held: what ends them, and what they cost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from msgspec.structs import replace

from holdfast.clock import SystemClock
from holdfast.core.command import Abort, Instruction
from holdfast.core.errors import NodeFenced
from holdfast.core.fleet.agents.wire import AgentStart, AgentSync, AgentSyncAnswer
from holdfast.errors import InvalidInput
from holdfast.fleet.agents.agents import HostNews
from holdfast.fleet.agents.door import AgentDoor
from holdfast.fleet.agents.looks import Looks
from holdfast.store.store import Store
from tests.backends import Bench
from tests.conformance.fleet.agent_support import (
    TestAgent,
    accept,
    add_job,
    enrol,
    exited,
    later,
    make_agents,
    running,
    set_due,
    set_job,
)
from tests.conformance.fleet.support import BY

SECONDS = 30.0


class DoorAgent(TestAgent):
    """An agent that asks at a door."""

    def __init__(self, door: AgentDoor, agent: TestAgent) -> None:
        self.__dict__ |= agent.__dict__
        self.door = door

    def poll(self, **parts: object) -> asyncio.Task[AgentSyncAnswer]:
        sync: AgentSync = replace(self.message().sync, **{"wait_seconds": 25.0, **parts})
        return asyncio.create_task(self.door.sync(self.host_id, sync))

    async def held(self, **parts: object) -> asyncio.Task[AgentSyncAnswer]:
        """A poll that is held by now."""
        task = self.poll(**parts)
        async with asyncio.timeout(SECONDS):
            while not self.door.held and not task.done():
                await asyncio.wait({task}, timeout=0.005)
        assert not task.done(), task.result()
        return task


@asynccontextmanager
async def at_door(store: Store) -> AsyncIterator[DoorAgent]:
    agents = make_agents(store)
    door = AgentDoor(agents, SystemClock())
    agent = TestAgent(agents, await enrol(agents, store, "web-1"))
    loop = asyncio.create_task(door.run())
    try:
        yield DoorAgent(door, agent)
    finally:
        await door.close()
        loop.cancel()
        await asyncio.gather(loop, return_exceptions=True)


async def test_a_hint_ends_the_polls_of_hosts_with_work(store: Store) -> None:
    async with at_door(store) as agent:
        task = await agent.held()
        agent.door.wake()
        [execution] = await add_job(store, [agent.host_id])
        agent.door.wake()
        answer = await asyncio.wait_for(task, SECONDS)
        assert [one.execution for one in answer.offers] == [execution]


async def test_an_execution_that_comes_due_ends_the_poll_without_a_hint(
    bench: Bench, store: Store
) -> None:
    async with at_door(store) as agent:
        [execution] = await add_job(store, [agent.host_id])
        await set_due(store, execution, store.now() + 0.2)
        task = await agent.held()
        later(bench, 1.0)
        answer = await asyncio.wait_for(task, SECONDS)
        assert [one.execution for one in answer.offers] == [execution]


async def test_a_hint_ends_no_poll_of_a_host_with_nothing_new(store: Store) -> None:
    async with at_door(store) as agent:
        [execution] = await add_job(store, [agent.host_id])
        await set_job(store, execution, halt_json='{"mode":"pause","reason":""}')
        task = await agent.held()
        agent.door.wake()
        news = await agent.agents.news([agent.host_id])
        assert news[0].waiting == 1
        assert not task.done(), "its job is paused"
        await set_job(store, execution, halt_json=None)
        agent.door.wake(force=True)
        assert (await asyncio.wait_for(task, SECONDS)).offers


async def test_a_command_is_said_at_once_and_again_after_a_while(store: Store) -> None:
    async with at_door(store) as agent:
        [execution] = await add_job(store, [agent.host_id])
        await agent.sync()
        await agent.sync(**accept(execution))
        task = await agent.held(**running(execution))
        await store.apply([Instruction(execution, Abort("user:ann", "x"))])
        agent.door.wake()
        answer = await asyncio.wait_for(task, SECONDS)
        assert [one.type for one in answer.commands] == ["ABORT"]
        again = await agent.held(**running(execution))
        assert not again.done(), "it was said a moment ago"
        killed = exited(execution, exit_code=None, signal=15, killed=True)
        assert (await asyncio.wait_for(agent.poll(results=[killed]), SECONDS)).acks
        await asyncio.wait_for(again, SECONDS)


async def test_a_new_start_ends_the_poll_of_the_old_one(store: Store) -> None:
    async with at_door(store) as agent:
        task = await agent.held()
        await agent.agents.start(agent.host_id, AgentStart(boot_id="b0", journal_id="j0"), BY)
        agent.door.wake()
        with pytest.raises(NodeFenced):
            await asyncio.wait_for(task, SECONDS)


async def test_nothing_is_offered_to_a_credential_that_has_ended(store: Store) -> None:
    """Its poll is not held either: nothing would end it, because the end came before the poll."""
    async with at_door(store) as agent:
        sync = replace(agent.message().sync, wait_seconds=25.0)
        asked = agent.door.sync(agent.host_id, sync, is_ended=lambda: True)
        assert (await asyncio.wait_for(asked, SECONDS / 3)).offers == []
        [execution] = await add_job(store, [agent.host_id])
        head = await store.feed.head()
        assert (await agent.door.sync(agent.host_id, sync, is_ended=lambda: True)).offers == []
        assert await store.feed.head() == head
        [offer] = (await asyncio.wait_for(agent.poll(), SECONDS)).offers
        assert offer.execution == execution


async def test_a_bad_message_is_refused_before_anything_is_read(store: Store) -> None:
    async with at_door(store) as agent:
        with pytest.raises(InvalidInput):
            await agent.poll(seq=-1)


async def test_an_idle_poll_costs_no_transaction(store: Store) -> None:
    async with at_door(store) as agent:
        head = await store.feed.head()
        task = await agent.held()
        await agent.door.close()
        answer = await asyncio.wait_for(task, SECONDS)
        assert (answer.seq, answer.offers) == (1, [])
        assert await store.feed.head() == head
        seq = (await agent.agents.news([agent.host_id]))[0]
        assert seq.slot == (0, None, None)


async def test_a_report_that_does_not_wait_costs_its_transaction_and_no_look(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with at_door(store) as agent:
        [execution] = await add_job(store, [agent.host_id])
        await agent.sync()
        looks: list[str] = []
        look = Looks.look

        async def counted(self: Looks, host_id: str) -> HostNews | None:
            looks.append(host_id)
            return await look(self, host_id)

        monkeypatch.setattr(Looks, "look", counted)
        answer = await agent.poll(wait_seconds=0.0, **accept(execution))
        assert [one.execution for one in answer.go] == [execution]
        answer = await agent.poll(wait_seconds=0.0, results=[exited(execution)])
        assert len(answer.acks) == 1
        assert not looks
        task = await agent.held()
        assert len(looks) == 1
        task.cancel()


async def test_what_the_answer_to_a_report_said_is_not_said_again_at_once(store: Store) -> None:
    async with at_door(store) as agent:
        [execution] = await add_job(store, [agent.host_id])
        await agent.sync()
        await agent.sync(**accept(execution))
        await store.apply([Instruction(execution, Abort("user:ann", "x"))])
        answer = await agent.poll(wait_seconds=0.0, **running(execution))
        assert [one.type for one in answer.commands] == ["ABORT"]
        task = await agent.held(**running(execution))
        assert not task.done(), "it was said a moment ago"
        task.cancel()


async def test_a_report_of_a_fenced_agent_is_refused_at_once(store: Store) -> None:
    async with at_door(store) as agent:
        [execution] = await add_job(store, [agent.host_id])
        await agent.sync()
        await agent.agents.start(agent.host_id, AgentStart(boot_id="b0", journal_id="j0"), BY)
        with pytest.raises(NodeFenced):
            await agent.poll(wait_seconds=0.0, **accept(execution))
