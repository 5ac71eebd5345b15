"""What the fleet does for many hosts takes as many statements as for a few."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from holdfast.core.fleet.rollout.policy import RolloutRequest
from holdfast.fleet.blocks.blocks import Blocks, NewBlock
from holdfast.fleet.jobs.control import JobControl
from holdfast.fleet.jobs.deadlines import Deadlines
from holdfast.fleet.jobs.reads import JobReads
from holdfast.store.script import Rows, Script
from holdfast.store.store import Store
from tests.conformance.fleet.job_support import FleetBench
from tests.conformance.fleet.support import BY, PROJECT

ALL_AT_ONCE = RolloutRequest(waves=(), max_in_flight=50)
Act = Callable[[FleetBench, str], Awaitable[object]]


class Counted:
    """Notes the statements that a store runs."""

    def __init__(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        self.names: list[str] = []
        run, read = store.run, store.read
        monkeypatch.setattr(
            store,
            "run",
            lambda script, **given: run(lambda *args: self._noted(script(*args)), **given),
        )
        monkeypatch.setattr(store, "read", lambda script: read(lambda: self._noted(script())))

    def _noted(self, script: Script[Any]) -> Script[Any]:
        rows: Rows = []
        try:
            statement = next(script)
            while True:
                self.names.append(statement.name)
                rows = yield statement
                statement = script.send(rows)
        except StopIteration as end:
            return end.value


async def create(fleet: FleetBench, job_id: str) -> None:
    names = [execution.host for execution in await fleet.executions(job_id)]
    await fleet.create(names)


async def plan(fleet: FleetBench, job_id: str) -> None:
    await fleet.plan(job_id)


async def kill(fleet: FleetBench, job_id: str) -> None:
    await JobControl(fleet.store, fleet.rules, fleet.bus).abort(job_id, BY, mode="kill")


async def stop(fleet: FleetBench, job_id: str) -> None:
    assert await Deadlines(fleet.store, fleet.rules, fleet.bus).stop_blocked() > 1


async def show(fleet: FleetBench, job_id: str) -> None:
    reads = JobReads(fleet.store, fleet.rules)
    job = (await reads.detail(job_id)).job
    await reads.executions(job)
    await reads.plan(job)


@pytest.mark.parametrize("act", [create, plan, kill, stop, show])
async def test_the_number_of_hosts_is_not_that_of_statements(
    store: Store, act: Act, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[list[str]] = []
    for hosts in (2, 7):
        fleet = FleetBench(store)
        names = (await fleet.add_hosts(7))[:hosts]
        job_id = (await fleet.create(names, rollout=ALL_AT_ONCE)).job.id
        if act is not plan:
            await fleet.plan(job_id)
            for task in await fleet.queued(job_id):
                await fleet.start(task)
        on_running = "abort" if act is stop else "finish"
        new = NewBlock(selector="name~web-*", reason="a test", on_running=on_running)
        block = await Blocks(store).add(PROJECT, new, BY)
        with monkeypatch.context() as patch:
            counted = Counted(store, patch)
            await act(fleet, job_id)
        found.append(counted.names)
        await Blocks(store).lift(block.id, BY)
    assert len(found[0]) == len(found[1]), found
