"""Injects the faults of a plan into a cluster.

Promises: each kind of fault and each single fault has its own random stream. Without one of them the
others stay the same, which makes shrinking possible.
"""

from __future__ import annotations

import asyncio
import contextvars
from itertools import count
from typing import Final

from holdfast.sim.draw import Draw
from holdfast.sim.net import NetConditions
from holdfast.sim.node import Cluster, Node
from holdfast.sim.server import NAME
from holdfast.sim.swarm import Plan

PERIOD_SECONDS: Final = 420.0
"""Mean time between two faults of one kind at one node."""
RECURRING: Final = frozenset(
    {
        *("cut", "clog", "crash", "freeze", "step", "restart", "power"),
        *("half-open", "suspend", "put-right"),
    }
)
AHEAD_SECONDS_MAX: Final = 3_600.0
"""How far a clock runs ahead before it is corrected. It is less than the retention of tasks: otherwise a
request whose answer was lost would be pruned before it is repeated."""
OPERATIONS_MAX: Final = 60
"""Upper bound of writes and syncs before the power fails during one."""


class FaultInjector:
    """Injects faults until `end`, which removes all of them."""

    def __init__(self, plan: Plan, cluster: Cluster, nodes: list[Node], draw: Draw) -> None:
        self._plan = plan
        self._cluster = cluster
        self._nodes = nodes
        self._draw = draw
        self._restart_delay = draw.stream("back")
        self._incarnation = 1
        self._is_over = False
        self.happened: list[str] = []
        """Names of the single faults of this run: `crash:3` is the third crash drawn."""

    def begin(self) -> None:
        """Sets what lasts for the whole run: network conditions, disk errors, clock drift."""
        has, draw, rate = self._plan.faults.__contains__, self._draw, self._plan.rate
        self._cluster.net.conditions = NetConditions(
            latency_seconds=draw.stream("latency").between(0.0005, 0.02),
            loss=draw.stream("loss").between(0.0, 0.05) * rate if has("loss") else 0.0,
            double=draw.stream("double").between(0.0, 0.05) * rate if has("double") else 0.0,
            slow=draw.stream("slow").between(0.0, 0.1) * rate if has("slow") else 0.0,
            slow_seconds=draw.stream("how slow").between(0.1, 8.0),
        )
        if (disk := self._cluster.database.disk) is not None:
            disk.full = 0.001 * rate if has("full") else 0.0
            disk.failing = 0.002 * rate if has("sync") else 0.0
        for node in self._nodes:
            if node.local_disk is not None:
                node.local_disk.spoil(
                    0.01 * rate if has("full") else 0.0, 0.005 * rate if has("sync") else 0.0
                )
        if has("drift"):
            for node in self._nodes:
                node.clock.rate = draw.stream(f"drift {node.name}").between(0.996, 1.004)
            self._cluster.trace.sometimes("drift")

    async def run(self) -> None:
        """Injects recurring faults, each kind independently, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for kind in sorted(self._plan.faults & RECURRING):
                group.create_task(self._repeat(kind, group))

    async def _repeat(self, kind: str, group: asyncio.TaskGroup) -> None:
        pause = PERIOD_SECONDS / (self._plan.rate * len(self._nodes))
        for n in count(1):
            name, draw = f"{kind}:{n}", self._draw.stream(f"{kind} {n}")
            await asyncio.sleep(draw.wait(pause))
            if self._is_over:
                return
            if self._plan.only is None or name in self._plan.only:
                self.happened.append(name)
                group.create_task(self._inject(kind, draw.pick(self._nodes), draw))

    async def _inject(self, kind: str, node: Node, draw: Draw) -> None:
        net = self._cluster.net
        seconds = draw.wait(self._plan.lease_seconds)
        peer = node.peers[0] if len(node.peers) == 1 else draw.pick(node.peers)
        match kind:
            case "crash" | "power" if node.local_disk is not None and draw.chance(0.7):
                node.local_disk.die_after(draw.below(OPERATIONS_MAX), kind)
            case "power" if node.local_disk is not None:
                node.crash()
                node.local_disk.lose_power()
                await asyncio.sleep(seconds)
                node.start()
            case "crash":
                node.crash()
                await asyncio.sleep(seconds)
                node.start()
            case "freeze" | "suspend":
                (node.freeze if kind == "freeze" else node.suspend)(seconds)
            case "half-open":
                self._cluster.trace.note(node.name, f"has a dead connection to {peer}")
                net.half_open(node.name, peer)
            case "cut":
                await self._cut(node.name, peer, draw, seconds)
            case "clog":
                self._cluster.trace.sometimes("clog")
                net.clog(*draw.pick(((node.name, peer), (peer, node.name))), seconds)
            case "step":
                self._cluster.trace.sometimes("step")
                victim = draw.pick((node.clock, self._cluster.database.clock))
                by = draw.between(-30.0, 30.0)
                victim.offset += by
                net.disturbances.set_clock(self._cluster.loop.time(), by)
            case _:
                await self._inject_at_database(kind, min(seconds, 10.0), draw)

    async def _cut(self, name: str, peer: str, draw: Draw, seconds: float) -> None:
        net = self._cluster.net
        self._cluster.trace.note(name, "is cut off")
        ways = draw.pick(([1, 0], [0, 1], [1, 1]))
        if ways[0]:
            net.cut(name, peer)
        if ways[1]:
            net.cut(peer, name)
        await asyncio.sleep(seconds)
        net.mend(name, peer)

    async def _inject_at_database(self, kind: str, seconds: float, draw: Draw) -> None:
        match kind:
            case "put-right":
                await self._set_ahead(draw, seconds)
            case "restart":
                await self._restart(seconds)
            case "power":
                await self._fail_power(seconds, draw)

    async def _set_ahead(self, draw: Draw, seconds: float) -> None:
        """Sets the database's clock far ahead and corrects it later."""
        ahead = min(draw.between(60.0, AHEAD_SECONDS_MAX), self._plan.keep_seconds / 2)
        clock, disturbances = self._cluster.database.clock, self._cluster.net.disturbances
        self._cluster.trace.note(NAME, f"has a clock that goes {ahead:.0f} s ahead")
        self._cluster.trace.sometimes("put-right")
        try:
            clock.offset += ahead
            disturbances.set_clock(self._cluster.loop.time(), ahead)
            await asyncio.sleep(seconds)
        finally:
            clock.offset -= ahead
            disturbances.set_clock(self._cluster.loop.time(), -ahead)

    async def _fail_power(self, seconds: float, draw: Draw) -> None:
        """Fails now, or during a later write."""
        disk = self._cluster.database.disk
        if disk is None:
            return
        if draw.chance(0.7):
            disk.dying = draw.below(OPERATIONS_MAX)
            return
        await self._restart(seconds)

    def server_gone(self) -> None:
        """The power failed during a transaction."""
        self._cluster.trace.note(NAME, "loses power")
        self._cluster.net.leave(NAME)
        self._cluster.loop.call_later(
            self._restart_delay.between(0.1, 10.0), self._come_back, context=contextvars.Context()
        )

    async def _restart(self, seconds: float) -> None:
        """Restarts the database. Messages in transit are lost."""
        self._cluster.trace.note(NAME, "restarts")
        self._cluster.trace.sometimes("restart")
        self._cluster.net.leave(NAME)
        await asyncio.sleep(seconds)
        self._come_back()

    def _come_back(self) -> None:
        self._cluster.database.power_loss()
        self._incarnation += 1
        self._cluster.net.join(NAME, self._incarnation)

    def forget(self) -> None:
        """Releases the nodes at the end of the run."""
        self._nodes = []

    def end(self) -> None:
        """Removes all faults and starts all nodes. Clocks keep their drift."""
        self._is_over = True
        self._cluster.net.heal()
        for node in self._nodes:
            node.wake()
        self._cluster.loop.thaw_all()
        self._cluster.net.disturbances.resume_all(self._cluster.loop.time())
        if (disk := self._cluster.database.disk) is not None:
            disk.full = disk.failing = 0.0
        self._come_back()
        for node in self._nodes:
            node.start()
