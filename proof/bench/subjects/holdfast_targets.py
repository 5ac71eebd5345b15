"""Holdfast: real agents on this machine, each with its journal, and real processes."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from holdfast.agent.agent import Agent
from holdfast.agent.executor import HostExecutor
from holdfast.agent.journal import HostJournal
from holdfast.agent.link import LocalHost
from holdfast.bus.local import LocalBus
from holdfast.clock import SystemClock
from holdfast.core.fleet.commands.command_type import command_types
from holdfast.core.fleet.jobs.request import JobRequest
from holdfast.core.fleet.model import Host, Job
from holdfast.core.fleet.rules import FleetRules
from holdfast.fleet.agents.agents import Agents
from holdfast.fleet.agents.door import AgentDoor
from holdfast.fleet.agents.transport import DoorTransport
from holdfast.fleet.hints import FLEET, wake_jobs
from holdfast.fleet.jobs.create import Jobs
from holdfast.fleet.jobs.job_rows import read_job
from holdfast.fleet.loops import FleetLoops
from holdfast.fleet.pipeline import Pipeline
from holdfast.fleet.simulated.registration import entries_of, register
from holdfast.queue.by import By
from holdfast.store.backends import secret_ids, store_for
from holdfast.store.store import Store
from proof.lab.folders import MEMORY
from proof.lab.subject import Subject, main

FANOUT = 64
POLL_SECONDS = 0.005
RULES = FleetRules(
    command_types=command_types({"check": {"argv": ["{command}"], "approval": "none"}}),
    max_in_flight=FANOUT,
)


class HoldfastTargets(Subject):
    """Store, planner and agents in one process; each command has a process."""

    async def op_targets(self, n: int, rounds: int) -> dict[str, float | None]:
        """The best of some jobs, after one that warms up: with the journals in memory, because each target
        has a disk, and with all of them on the disk of this machine."""
        seconds = await self._measured(n, rounds, MEMORY)
        self.options = replace(self.options, url=f"{self.options.url}-disk")
        on_disk = await self._measured(n, rounds, Path(self.options.path).parent)
        return {"seconds": seconds, "rate": n / seconds, "disk": on_disk}

    async def _measured(self, n: int, rounds: int, place: Path) -> float:
        with TemporaryDirectory(dir=place) as folder:
            clock, bus, machine = SystemClock(), LocalBus(), LocalHost()
            store = store_for(self.options.url, clock)()
            await store.open()
            agents = Agents(store, RULES, on_changed=lambda _ended: wake_jobs(bus))
            door = AgentDoor(agents, clock)
            bus.subscribe(lambda _hint: door.wake(), FLEET)
            hosts = await register(store, entries_of(n, 1), heartbeat_seconds=25.0)
            pipeline = Pipeline(store, RULES, bus, owner="bench")
            tasks = [asyncio.create_task(door.run())]
            tasks += [
                asyncio.create_task(_serve(host, door, machine, Path(folder))) for host in hosts
            ]
            async with FleetLoops(store, RULES, clock, bus, pipeline).running():
                jobs = Jobs(store, RULES, bus)
                times = []
                for _ in range(rounds + 1):
                    began = time.perf_counter()
                    request = JobRequest(command_type="check", command="true", selector="*")
                    job_id = (await jobs.create(request, By("user:bench"))).job.id
                    job = await _ended(store, job_id)
                    assert job.status == "SUCCESS", job
                    times.append(time.perf_counter() - began)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await machine.close()
            await store.close()
        return min(times[1:])


async def _ended(store: Store, job_id: str) -> Job:
    while True:
        job = await store.read(lambda: read_job(job_id))
        if job is not None and job.finished_at is not None:
            return job
        await asyncio.sleep(POLL_SECONDS)


async def _serve(host: Host, door: AgentDoor, machine: LocalHost, folder: Path) -> None:
    ids = secret_ids()
    own = folder / host.name
    agent = Agent(
        DoorTransport(door, host.id, "bench"),
        HostJournal(machine, own / "journal", ids.secret()),
        HostExecutor(machine, own / "runs"),
        SystemClock(),
        jitter=ids.random_unit,
    )
    await agent.run()


if __name__ == "__main__":
    main(HoldfastTargets)
