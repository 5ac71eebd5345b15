"""The bad days of a cluster: loops that break things, as often as the plan says.

Promises: each kind of fault, and each single fault, has a stream of chance of its own, so that a run with one
less is the same run but for that one. That is what makes a failure shrink.
"""

from __future__ import annotations

import asyncio
import contextvars
from itertools import count
from typing import Final

from holdfast.sim.draw import Draw
from holdfast.sim.net import Weather
from holdfast.sim.node import Cluster, Node
from holdfast.sim.server import NAME
from holdfast.sim.swarm import Plan

EVERY_SECONDS: Final = 420.0
"""Between two faults of one kind at one node."""
BY_AND_BY: Final = frozenset(
    {
        *("cut", "clog", "crash", "freeze", "step", "restart", "power"),
        *("half-open", "suspend", "put-right"),
    }
)
AHEAD_SECONDS_MAX: Final = 3_600.0
"""How far a clock goes ahead before it is put right; less than tasks are kept, or a request whose answer was
lost would be forgotten before it is repeated."""
OPERATIONS_MAX: Final = 60
"""Writes and syncs until the power fails in the middle of one."""


class Trouble:
    """Breaks what the plan allows, until it is told to stop; then heals everything."""

    def __init__(self, plan: Plan, cluster: Cluster, nodes: list[Node], draw: Draw) -> None:
        self._plan = plan
        self._cluster = cluster
        self._nodes = nodes
        self._draw = draw
        self._back_after = draw.stream("back")
        self._incarnation = 1
        self._is_over = False
        self.happened: list[str] = []
        """The single faults of this run, by name: `crash:3` is the third crash that was drawn."""

    def begin(self) -> None:
        """The weather of the whole run, and clocks that run wrong."""
        has, draw, rate = self._plan.faults.__contains__, self._draw, self._plan.rate
        self._cluster.net.weather = Weather(
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
            if node.machine is not None:
                node.machine.spoil(
                    0.01 * rate if has("full") else 0.0, 0.005 * rate if has("sync") else 0.0
                )
        if has("drift"):
            for node in self._nodes:
                node.clock.rate = draw.stream(f"drift {node.name}").between(0.996, 1.004)
            self._cluster.trace.sometimes("drift")

    async def run(self) -> None:
        """For ever; every kind by itself."""
        async with asyncio.TaskGroup() as group:
            for kind in sorted(self._plan.faults & BY_AND_BY):
                group.create_task(self._again_and_again(kind, group))

    async def _again_and_again(self, kind: str, group: asyncio.TaskGroup) -> None:
        pause = EVERY_SECONDS / (self._plan.rate * len(self._nodes))
        for n in count(1):
            name, draw = f"{kind}:{n}", self._draw.stream(f"{kind} {n}")
            await asyncio.sleep(draw.wait(pause))
            if self._is_over:
                return
            if self._plan.only is None or name in self._plan.only:
                self.happened.append(name)
                group.create_task(self._break(kind, draw.pick(self._nodes), draw))

    async def _break(self, kind: str, node: Node, draw: Draw) -> None:
        net = self._cluster.net
        seconds = draw.wait(self._plan.lease_seconds)
        peer = node.peers[0] if len(node.peers) == 1 else draw.pick(node.peers)
        match kind:
            case "crash" | "power" if node.machine is not None and draw.chance(0.7):
                node.machine.die_after(draw.below(OPERATIONS_MAX), kind)
            case "power" if node.machine is not None:
                node.crash()
                node.machine.lose_power()
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
                net.calm.set_clock(self._cluster.loop.time(), by)
            case _:
                await self._break_database(kind, min(seconds, 10.0), draw)

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

    async def _break_database(self, kind: str, seconds: float, draw: Draw) -> None:
        match kind:
            case "put-right":
                await self._set_ahead(draw, seconds)
            case "restart":
                await self._restart(seconds)
            case "power":
                await self._fail_power(seconds, draw)

    async def _set_ahead(self, draw: Draw, seconds: float) -> None:
        """The database's clock goes far ahead and, a while later, is put right."""
        ahead = min(draw.between(60.0, AHEAD_SECONDS_MAX), self._plan.keep_seconds / 2)
        clock, calm = self._cluster.database.clock, self._cluster.net.calm
        self._cluster.trace.note(NAME, f"has a clock that goes {ahead:.0f} s ahead")
        self._cluster.trace.sometimes("put-right")
        try:
            clock.offset += ahead
            calm.set_clock(self._cluster.loop.time(), ahead)
            await asyncio.sleep(seconds)
        finally:
            clock.offset -= ahead
            calm.set_clock(self._cluster.loop.time(), -ahead)

    async def _fail_power(self, seconds: float, draw: Draw) -> None:
        """At once, or in the middle of a write that is to come."""
        disk = self._cluster.database.disk
        if disk is None:
            return
        if draw.chance(0.7):
            disk.dying = draw.below(OPERATIONS_MAX)
            return
        await self._restart(seconds)

    def went_silent(self) -> None:
        """The power failed while the database was at work."""
        self._cluster.trace.note(NAME, "loses power")
        self._cluster.net.leave(NAME)
        self._cluster.loop.call_later(
            self._back_after.between(0.1, 10.0), self._back, context=contextvars.Context()
        )

    async def _restart(self, seconds: float) -> None:
        """The database goes away and comes back; what is on its way then is lost."""
        self._cluster.trace.note(NAME, "restarts")
        self._cluster.trace.sometimes("restart")
        self._cluster.net.leave(NAME)
        await asyncio.sleep(seconds)
        self._back()

    def _back(self) -> None:
        self._cluster.database.power_loss()
        self._incarnation += 1
        self._cluster.net.join(NAME, self._incarnation)

    def forget(self) -> None:
        """The run is over; nothing of the nodes is to be kept."""
        self._nodes = []

    def end(self) -> None:
        """Everything heals, everybody is up again. Clocks keep their rates: they always have one."""
        self._is_over = True
        self._cluster.net.heal()
        for node in self._nodes:
            node.wake()
        self._cluster.loop.thaw_all()
        self._cluster.net.calm.go_on(self._cluster.loop.time())
        if (disk := self._cluster.database.disk) is not None:
            disk.full = disk.failing = 0.0
        self._back()
        for node in self._nodes:
            node.start()
