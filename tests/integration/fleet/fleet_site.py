"""A store that tests of the fleet share with processes, and a wait for what these do."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from holdfast.bus.backends import bus_for
from holdfast.bus.port import FEED, Bus
from holdfast.clock import SystemClock
from holdfast.core.fleet.hosts.entry import HostEntry
from holdfast.core.fleet.jobs.request import JobRequest
from holdfast.core.fleet.model import Job
from holdfast.core.fleet.rules import FleetRules
from holdfast.fleet.hosts.hosts import Hosts
from holdfast.fleet.jobs.create import Jobs
from holdfast.fleet.jobs.job_rows import read_job
from holdfast.store.backends import store_for
from holdfast.store.store import Store
from tests.conformance.fleet.support import BY, PROJECT

LOOK_SECONDS = 0.5


class Site:
    """The store, and a file to which each command appends the name of its execution."""

    def __init__(self, store: Store, bus: Bus, rules: FleetRules, folder: Path) -> None:
        self.store = store
        self.bus = bus
        self.jobs = Jobs(store, rules, bus)
        self.starts_file = folder / "starts"
        self._clock = SystemClock()

    async def add_hosts(self, count: int, **fields: Any) -> list[str]:
        names = [f"host-{n:02}" for n in range(1, count + 1)]
        await Hosts(self.store).import_(
            PROJECT, [HostEntry(name=name, **fields) for name in names], BY
        )
        return names

    async def create(self, hosts: Sequence[str], script: str = "", **fields: Any) -> Job:
        """A job whose command writes one line on each host."""
        line = f"echo $HOLDFAST_EXECUTION >> {self.starts_file}; {script}"
        given = {"command_type": "exec", "command": f"sh -c '{line}'", "hosts": list(hosts)}
        request = msgspec.convert(given | fields, JobRequest)
        return (await self.jobs.create(request, BY)).job

    def starts(self) -> Counter[str]:
        """How often each execution has started."""
        if not self.starts_file.exists():
            return Counter()
        return Counter(self.starts_file.read_text().split())

    async def job(self, job_id: str) -> Job:
        job = await self.store.read(lambda: read_job(job_id))
        assert job is not None
        return job

    async def until(self, is_so: Callable[[], Awaitable[bool] | bool]) -> None:
        """Looks after each change of the store, and now and then."""
        changed = asyncio.Event()
        leave = self.bus.subscribe(lambda _hint: changed.set(), FEED)
        try:
            while True:
                changed.clear()
                answer = is_so()
                if answer if isinstance(answer, bool) else await answer:
                    return
                await self._clock.wait(changed, LOOK_SECONDS)
        finally:
            leave()

    async def finished(self, job_id: str) -> Job:
        async def is_finished() -> bool:
            return (await self.job(job_id)).finished_at is not None

        await self.until(is_finished)
        return await self.job(job_id)


@asynccontextmanager
async def site(url: str, rules: FleetRules, folder: Path) -> AsyncIterator[Site]:
    clock = SystemClock()
    store = store_for(url, clock)()
    await store.open()
    bus = bus_for(url, clock, store.file, name=store.ids.secret())
    await bus.start()
    try:
        yield Site(store, bus, rules, folder)
    finally:
        await bus.stop()
        await store.close()
