"""What operators do after the faults of a run: they let everything come to its end."""

from __future__ import annotations

import contextvars
from typing import Final

from holdfast.core.task import DEFAULT_PROJECT
from holdfast.errors import HoldfastError
from holdfast.queue.by import By
from holdfast.sim.draw import Draw
from holdfast.sim.fleet.operator import VOTER, Acts
from holdfast.sim.fleet.server import AnyServer
from holdfast.sim.fleet_history import FleetHistory
from holdfast.sim.node import Cluster

PERIOD_SECONDS: Final = 10.0
BY: Final = By(actor="user:eve", reason="the simulation ends")
PAUSED: Final = "SELECT id FROM holdfast_job WHERE finished_at IS NULL AND status = 'PAUSED'"
QUARANTINED: Final = "SELECT id FROM holdfast_node WHERE state = 'quarantined'"
CORDONED: Final = "SELECT id FROM holdfast_host WHERE state = 'cordoned'"


class Calming:
    """Lifts blocks, resumes jobs, decides approvals and puts hosts into service, until the run ends. An agent
    that restarts very often while old messages arrive may be taken for two, and is admitted again."""

    def __init__(self, server: AnyServer, history: FleetHistory, cluster: Cluster) -> None:
        self._server = server
        self._acts = Acts(server, history, Draw(0, "calm"), "calm", cluster.loop.time)
        self._cluster = cluster

    def begin(self) -> None:
        loop = self._cluster.loop
        self._task = loop.create_task(self._run(), context=contextvars.Context())

    async def _run(self) -> None:
        clock = self._cluster.database.clock
        while True:
            for act in (self._blocks, self._nodes, self._hosts, self._approvals, self._jobs):
                try:
                    await act()
                except HoldfastError as error:
                    self._cluster.trace.step(f"calming {error}")
            await clock.sleep(PERIOD_SECONDS)

    async def _blocks(self) -> None:
        for block in await self._server.call(lambda s: s.fleet.blocks.list(DEFAULT_PROJECT)):
            await self._acts.lift_one(block.id)

    async def _nodes(self) -> None:
        for (node,) in self._cluster.database.rows(QUARANTINED):
            await self._acts.admit(node)

    async def _hosts(self) -> None:
        for (host,) in self._cluster.database.rows(CORDONED):
            await self._acts.put_into(host, "active")

    async def _approvals(self) -> None:
        for request in await self._server.call(lambda s: s.fleet.approvals.open()):
            await self._acts.vote(request.job_id, VOTER, approves=True)

    async def _jobs(self) -> None:
        for (job,) in self._cluster.database.rows(PAUSED):
            await self._acts.resume(job, BY)
