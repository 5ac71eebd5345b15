"""Simulated hosts beside a server's parts: jobs come to their ends, through loss and crashes too."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from holdfast.app import resources_for
from holdfast.bus.port import FEED
from holdfast.clock import SystemClock
from holdfast.core.fleet.jobs.request import JobRequest
from holdfast.core.fleet.model import Job, JobStatus
from holdfast.core.fleet.rules import FleetRules
from holdfast.errors import BadConfig, InvalidInput
from holdfast.fleet.agents.agents import Agents
from holdfast.fleet.agents.door import AgentDoor
from holdfast.fleet.fleet import Fleet
from holdfast.fleet.hints import FLEET, wake_jobs
from holdfast.fleet.jobs.job_rows import counts_of, read_job
from holdfast.fleet.loops import FleetLoops
from holdfast.fleet.pipeline import Pipeline
from holdfast.fleet.simulated.faults import SimulatedFaults
from holdfast.fleet.simulated.site import SimulatedFleet, Simulation, check_simulation
from holdfast.queue.by import By
from tests.backends import SQL, url_of

BY = By("user:ann")
RULES = FleetRules(approval_default="none", heartbeat_seconds=2.0, lease_seconds=5.0)
SECONDS_MAX = 60.0


class Site:
    """A fleet with simulated hosts, in real time."""

    def __init__(self, url: str, simulation: Simulation) -> None:
        clock = SystemClock()
        resources = resources_for(url, clock)()
        self.store, self.bus = resources.store, resources.bus
        self.fleet = Fleet(self.store, RULES, bus=self.bus)
        self.door = AgentDoor(Agents(self.store, RULES, on_changed=self._changed), clock)
        pipeline = Pipeline(self.store, RULES, self.bus, owner="test")
        self.loops = FleetLoops(self.store, RULES, clock, self.bus, pipeline)
        self.simulated = SimulatedFleet(self.store, self.door, clock, simulation, run_id="t")

    def _changed(self, has_ended: bool) -> None:
        (wake_jobs if has_ended else lambda bus: bus.publish(FEED))(self.bus)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        await self.store.open()
        await self.bus.start()
        leave = self.bus.subscribe(lambda _: self.door.wake(), FLEET)
        serving = asyncio.create_task(self.door.run())
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self.loops.running())
            await stack.enter_async_context(self.simulated.running())
            yield
        leave()
        await self.door.close()
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        await self.bus.stop()
        await self.store.close()

    async def run(self, command: str) -> Job:
        """A job for all hosts, at its end."""
        request = JobRequest(command_type="exec", command=command, selector="*")
        job = (await self.fleet.jobs.create(request, BY)).job
        job_id = job.id
        woken = asyncio.Event()
        leave = self.bus.subscribe(lambda _: woken.set(), FEED)
        try:
            async with asyncio.timeout(SECONDS_MAX):
                while job.finished_at is None:
                    await SystemClock().wait(woken, 1.0)
                    woken.clear()
                    found = await self.store.read(lambda: read_job(job_id))
                    assert found is not None
                    job = found
        finally:
            leave()
        return job


@pytest.fixture(params=SQL)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return url_of(request.param, request, tmp_path)


async def test_a_job_of_healthy_hosts_ends(url: str) -> None:
    site = Site(url, Simulation(hosts=60))
    async with site.running():
        assert (await site.run("true")).status is JobStatus.SUCCESS
        job = await site.run("false")
        assert (job.status, job.counts_json) == (JobStatus.FAILED, '{"failed":60}')
        job = await site.run("echo hello")
        groups = await site.fleet.job_outputs.folded(job)
        assert [group.count for group in groups.groups] == [60]


async def test_hosts_on_a_bad_network_run_each_command_once(tmp_path: Path) -> None:
    faults = SimulatedFaults(
        loss=0.1, delay=(0.0, 0.02), duplicate=0.2, reorder=0.05, crash=0.1, skew=1e8
    )
    site = Site(f"sqlite:///{tmp_path}/x.db", Simulation(hosts=40, seed=3, faults=faults))
    async with site.running():
        for host in site.simulated.hosts:
            host.machine.keep_history()
        job = await site.run("true")
        ended = Counter(
            run.execution for host in site.simulated.hosts for run in host.machine.history
        )
    assert sum(counts_of(job).values()) == 40
    assert counts_of(job).keys() <= {"succeeded", "lost"}
    assert set(ended.values()) == {1}


async def test_services_do_not_start_on_broken_hosts(tmp_path: Path) -> None:
    simulation = Simulation(hosts=40, seed=3, faults=SimulatedFaults(broken=0.2))
    site = Site(f"sqlite:///{tmp_path}/x.db", simulation)
    async with site.running():
        counts = counts_of(await site.run("systemctl restart nginx"))
        assert (await site.run("true")).status is JobStatus.SUCCESS
        assert counts_of(await site.run("systemctl restart nginx")) == counts
    assert 0 < counts["failed"] < 20
    assert sum(counts.values()) == 40


def test_a_simulation_has_bounds() -> None:
    with pytest.raises(InvalidInput, match="simulated hosts"):
        check_simulation(Simulation(hosts=0))
    with pytest.raises(BadConfig, match="loss"):
        check_simulation(Simulation(hosts=1, faults=SimulatedFaults(loss=2.0)))
