"""A host that is removed while a job waits for it, and may be another machine when it returns."""

from __future__ import annotations

import pytest

from holdfast.clock import VirtualClock
from holdfast.core.fleet.hosts.entry import HostEntry
from holdfast.core.fleet.model import JobStatus
from holdfast.core.fleet.rollout.policy import BudgetName, HostOrder, RolloutRequest
from holdfast.fleet.agents.agents import Agents
from holdfast.fleet.hosts.hosts import Hosts
from holdfast.fleet.jobs.job_rows import counts_of
from holdfast.store.store import Store
from tests.conformance.fleet.agent_support import TestAgent, accept, enrol, join_token
from tests.conformance.fleet.job_support import FleetBench
from tests.conformance.fleet.support import BY, PROJECT

ONE = RolloutRequest(
    waves=(), max_in_flight=1, order=HostOrder.NAME, budget={BudgetName.UNREACHABLE: None}
)


class Site:
    """A job on two hosts with agents; the window has one."""

    def __init__(self, store: Store, clock: VirtualClock) -> None:
        self.store, self.clock = store, clock
        self.fleet = FleetBench(store)
        self.agents = Agents(store, self.fleet.rules)

    async def join(self, name: str, boot_id: str = "b0") -> TestAgent:
        join = await join_token(self.store)
        return TestAgent(
            self.agents, await enrol(self.agents, self.store, name, join, boot_id=boot_id)
        )

    async def open(self) -> tuple[TestAgent, TestAgent]:
        first, second = await self.join("web-1"), await self.join("web-2")
        fields = {"command_type": "exec", "command": "true", "rollout": ONE}
        self.job_id = (await self.fleet.create(["web-1", "web-2"], **fields)).job.id
        await self.fleet.plan(self.job_id)
        return first, second

    async def replace(self, old: TestAgent) -> TestAgent:
        """Another machine gets the name of the host."""
        host = await Hosts(self.store).by_id(old.host_id)
        await Hosts(self.store).remove(old.host_id, BY)
        self.clock.pause(1.0)
        await Hosts(self.store).add(PROJECT, HostEntry(name=host.name), BY)
        new = await self.join(host.name, "b9")
        assert new.host_id == old.host_id
        return new

    async def plan(self) -> dict[str, int]:
        self.clock.pause(2.0)
        return counts_of(await self.fleet.plan(self.job_id))


@pytest.fixture
def site(store: Store, clock: VirtualClock) -> Site:
    return Site(store, clock)


async def test_a_job_does_not_wait_for_a_host_that_was_removed(site: Site) -> None:
    first, second = await site.open()
    await Hosts(site.store).remove(first.host_id, BY)
    assert await site.plan() == {"undeliverable": 1}
    await Hosts(site.store).remove(second.host_id, BY)
    await site.plan()
    job = await site.fleet.plan(site.job_id)
    assert (job.status, counts_of(job)) == (JobStatus.FAILED, {"undeliverable": 2})


async def test_another_machine_of_the_name_is_not_offered_what_waited(site: Site) -> None:
    first, _ = await site.open()
    new = await site.replace(first)
    assert (await new.sync()).offers == []
    assert await site.plan() == {"undeliverable": 1}
    [ended, _] = await site.fleet.executions(site.job_id)
    assert "removed" in ended.detail


async def test_another_machine_of_the_name_is_not_admitted(site: Site) -> None:
    first, second = await site.open()
    new = await site.replace(second)
    await Hosts(site.store).remove(first.host_id, BY)
    for _ in range(3):
        await site.plan()
    assert (await new.sync()).offers == []
    assert counts_of(await site.fleet.job(site.job_id)) == {"undeliverable": 2}


async def test_a_new_job_runs_on_the_new_machine(site: Site) -> None:
    first, _ = await site.open()
    new = await site.replace(first)
    await site.plan()
    job = (await site.fleet.create(["web-1"], command_type="exec", command="true")).job
    await site.fleet.plan(job.id)
    [offer] = (await new.sync()).offers
    assert (await new.sync(**accept(offer.execution, offer.token))).go
