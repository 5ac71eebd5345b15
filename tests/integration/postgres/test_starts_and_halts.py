"""A start of an execution and a change that forbids it, at once: the start commits first, or does not happen.

On PostgreSQL only: with one writer the two are one after the other.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, cast

import pytest

from holdfast.core.fleet.agents.wire import AgentSyncAnswer
from holdfast.core.fleet.approvals.approval import Person
from holdfast.core.fleet.rollout.policy import HostOrder, RolloutRequest
from holdfast.fleet.agents.agents import Agents
from holdfast.fleet.blocks.blocks import Blocks, NewBlock
from holdfast.fleet.hosts.groups import Groups
from holdfast.fleet.hosts.hosts import Hosts
from holdfast.fleet.jobs.approvals import Approvals
from holdfast.fleet.jobs.control import JobControl
from holdfast.fleet.jobs.deadlines import Deadlines
from holdfast.queue.by import By
from holdfast.store.port import RowHeld
from holdfast.store.postgres import connection as postgres
from holdfast.store.store import Store
from tests.backends import PostgresBench
from tests.conformance.fleet.agent_support import TestAgent, accept, enrol, slot_of
from tests.conformance.fleet.job_support import FleetBench
from tests.conformance.fleet.support import BY, PROJECT
from tests.integration.postgres.held_support import until_one_waits

BOB = Person("user:bob", frozenset({"role:approver"}))


class SlowCommits:
    """A store whose transactions have run, and commit when the test says so."""

    def __init__(self, store: Store, connection: postgres.Connection) -> None:
        self._store, self._connection = store, connection
        self.have_run = asyncio.Event()
        self.may_commit = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def store(self) -> Store:
        return cast(Store, self)

    async def run(self, make: Any, **_options: Any) -> Any:
        async with self._connection.transaction():
            script = make(self._store._dialect, self._store.ids, self._store.now())
            value = await postgres.run(self._connection, script)
            self.have_run.set()
            await self.may_commit.wait()
        return value


class Site:
    """A job on web-1, which has an offer or will get one, and on web-2, which a block holds."""

    def __init__(self, store: Store, slow: SlowCommits) -> None:
        self.store, self.slow = store, slow
        self.fleet = FleetBench(store)
        self.offer = ("", 0)
        self.start: Callable[[Agents], Coroutine[Any, Any, AgentSyncAnswer | Exception]] = self.poll

    async def open(self, command_type: str) -> None:
        agents = Agents(self.store, self.fleet.rules)
        self.agent = TestAgent(agents, await enrol(agents, self.store, "web-1"))
        await enrol(agents, self.store, "web-2")
        await Groups(self.store).add(PROJECT, "quiet", "web-2", BY)
        self.block = await Blocks(self.store).add(
            PROJECT,
            NewBlock(selector="@quiet", reason="swap", effect="hold", on_lift="reapprove"),
            BY,
        )
        rollout = RolloutRequest(waves=(), order=HostOrder.NAME)
        fields = {"command_type": command_type, "command": "true", "rollout": rollout}
        self.job_id = (await self.fleet.create(["web-1", "web-2"], **fields)).job.id
        if (await self.fleet.job(self.job_id)).approval_id is not None:
            yes = By(BOB.name, "yes")
            await Approvals(self.store, self.fleet.rules, self.fleet.bus).approve(
                self.job_id, BOB, yes
            )
        await self.fleet.plan(self.job_id)

    async def accept(self, agents: Agents) -> AgentSyncAnswer | Exception:
        """The agent asks for the go of its offer."""
        message = self.agent.message(**accept(*self.offer))
        [answer] = await agents.sync([message])
        return answer

    async def poll(self, agents: Agents) -> AgentSyncAnswer | Exception:
        """The agent asks for an offer, which has its go."""
        [answer] = await agents.sync([self.agent.message()])
        return answer


Act = Callable[[Site, Any], Coroutine[Any, Any, object]]


async def block(site: Site, store: Any) -> object:
    return await Blocks(store).add(PROJECT, NewBlock(host="web-1", reason="disk swap"), BY)


async def regroup(site: Site, store: Any) -> object:
    return await Groups(store).edit(PROJECT, "quiet", "web-1", BY)


async def cordon(site: Site, store: Any) -> object:
    return await Hosts(store).edit(site.agent.host_id, BY, state="cordoned")


async def remove(site: Site, store: Any) -> object:
    return await Hosts(store).remove(site.agent.host_id, BY)


async def pause(site: Site, store: Any) -> object:
    return await JobControl(store, site.fleet.rules, site.fleet.bus).pause(site.job_id, BY)


async def abort(site: Site, store: Any) -> object:
    return await JobControl(store, site.fleet.rules, site.fleet.bus).abort(site.job_id, BY)


async def ask_again(site: Site, store: Any) -> object:
    """The block of the other host has ended, and people have to approve the job again."""
    return await Deadlines(store, site.fleet.rules, site.fleet.bus).release_held()


ACTS: dict[str, Act] = {
    "block": block,
    "regroup": regroup,
    "cordon": cordon,
    "remove": remove,
    "pause": pause,
    "abort": abort,
    "ask_again": ask_again,
}
GO, OFFER = "go", "offer with go"
CASES = [
    (act, start) for act in ACTS for start in (GO, OFFER) if (act, start) != ("ask_again", OFFER)
]
"""Jobs of commands that may start twice need no approval here, so no one is asked again."""
both = pytest.mark.parametrize(("act", "site"), CASES, indirect=["site"])


@pytest.fixture
async def slow(bench: PostgresBench, store: Store, pg_dsn: str) -> AsyncIterator[SlowCommits]:
    connection = await postgres.connect(pg_dsn)
    yield SlowCommits(await bench.open(), connection)
    connection.terminate()


@pytest.fixture
async def site(store: Store, slow: SlowCommits, request: pytest.FixtureRequest) -> Site:
    made = Site(store, slow)
    asks = request.param == GO
    await made.open("shell" if asks else "restart")
    made.start = made.accept if asks else made.poll
    if asks:
        [offer] = (await made.agent.sync()).offers
        made.offer = (offer.execution, offer.token)
    return made


def has_started(answer: object) -> bool:
    assert isinstance(answer, AgentSyncAnswer), answer
    return bool(answer.go or any(offer.go for offer in answer.offers))


async def prepared(site: Site, act: str) -> Act:
    if act == "ask_again":
        await Blocks(site.store).lift(site.block.id, BY)
    return ACTS[act]


@both
async def test_a_change_waits_for_a_start_that_is_under_way(
    site: Site, slow: SlowCommits, pg_dsn: str, act: str
) -> None:
    forbid = await prepared(site, act)
    starting = asyncio.create_task(site.start(Agents(slow.store(), site.fleet.rules)))
    await slow.have_run.wait()
    forbidding = asyncio.create_task(forbid(site, site.store))
    connection = await postgres.connect(pg_dsn)
    await until_one_waits(connection)
    await connection.close()
    assert not forbidding.done()
    slow.may_commit.set()
    assert has_started(await starting)
    await forbidding
    assert (await slot_of(site.store, site.agent.host_id))[1] is not None
    await site.agent.sync()  # The agent may report the end.


@both
async def test_no_start_gets_past_a_change_that_is_under_way(
    site: Site, slow: SlowCommits, act: str
) -> None:
    forbid = await prepared(site, act)
    agents = Agents(site.store, site.fleet.rules)
    forbidding = asyncio.create_task(forbid(site, slow))
    await slow.have_run.wait()
    answer = await site.start(agents)
    assert isinstance(answer, RowHeld) or not has_started(answer)
    slow.may_commit.set()
    await forbidding
    answer = await site.start(agents)
    assert isinstance(answer, Exception) or not has_started(answer)
