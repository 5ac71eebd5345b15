"""A server of the fleet as a simulated process: the use cases, the loops of jobs and the door of agents."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from holdfast.bus.port import FEED
from holdfast.core.errors import GatewayUnavailable
from holdfast.core.fleet.agents.wire import AgentStart, AgentStarted, AgentSync, AgentSyncAnswer
from holdfast.core.fleet.rules import FleetRules
from holdfast.errors import StoreUnavailable
from holdfast.fleet.agents.agents import Agents
from holdfast.fleet.agents.door import AgentDoor
from holdfast.fleet.blocks.blocks import BlockLoop
from holdfast.fleet.fleet import Fleet
from holdfast.fleet.hints import FLEET, wake_jobs
from holdfast.fleet.loops import FleetLoops
from holdfast.fleet.pipeline import Pipeline
from holdfast.fleet.simulated.site import DoorDesk
from holdfast.queue.queue import Queue
from holdfast.queue.session import Resources
from holdfast.sim.draw import Draw
from holdfast.sim.fleet_history import FleetHistory
from holdfast.sim.node import Node

T = TypeVar("T")
LOOK_SECONDS: Final = 0.5
"""The least time between two looks because the feed has grown."""


class OpenServer:
    """A server that has started."""

    def __init__(self, resources: Resources, rules: FleetRules, name: str) -> None:
        self.resources = resources
        store, bus, clock = resources.store, resources.bus, resources.clock
        self.fleet = Fleet(store, rules, bus=bus)
        agents = Agents(store, self.fleet.rules, on_changed=self._changed)
        self.door = AgentDoor(agents, clock)
        self.desk = DoorDesk(self.door)
        pipeline = Pipeline(store, self.fleet.rules, bus, owner=name)
        blocks = BlockLoop(self.fleet.blocks, store, clock)
        self.loops = FleetLoops(store, self.fleet.rules, clock, bus, pipeline, more=[blocks])
        self._grown = asyncio.Event()

    def _changed(self, has_ended: bool) -> None:
        if has_ended:
            wake_jobs(self.resources.bus)
        else:
            self.resources.bus.publish(FEED)

    async def run(self) -> None:
        """Serves until the process dies."""
        bus = self.resources.bus
        bus.subscribe(lambda _: self.door.wake(), FLEET)
        bus.subscribe(lambda _: self._grown.set(), FEED)
        async with self.loops.running():
            await asyncio.gather(self.door.run(), self._follow())

    async def _follow(self) -> None:
        """Wakes agents after changes of the feed, as a server does that reads it."""
        while True:
            await self._grown.wait()
            self._grown.clear()
            self.door.wake(force=True)
            await self.resources.clock.sleep(LOOK_SECONDS)


class FleetServer:
    """The main of a server's node, and the way to it."""

    def __init__(self, node: Node, rules: FleetRules) -> None:
        self._node = node
        self._rules = rules
        self._context: contextvars.Context | None = None
        self._calls: set[asyncio.Future[Any]] = set()
        self.opened: OpenServer | None = None
        node.main = self.main
        node.when_dead = self._died

    async def main(self, node: Node, queue: Queue) -> None:
        """It starts when the store can be reached."""
        resources: Resources | None = None
        while resources is None:
            try:
                resources = await queue.open()
            except StoreUnavailable:
                await node.clock.sleep(1.0)
        task = asyncio.current_task()
        assert task is not None
        node.keep(task)  # nothing else refers to it
        self._context = contextvars.copy_context()
        self.opened = OpenServer(resources, self._rules, node.life)
        await self.opened.run()

    def _died(self) -> None:
        """Its connections are reset."""
        self.opened = None
        calls, self._calls = self._calls, set()
        for answer in calls:
            if not answer.done():
                answer.set_exception(GatewayUnavailable("the server has died"))

    @property
    def is_open(self) -> bool:
        return self.opened is not None and self._node.is_up

    async def call(self, make: Callable[[OpenServer], Awaitable[T]]) -> T:
        """Runs a request in the process of the server. A caller that gives up closes the connection."""
        loop = self._node.cluster.loop
        answer: asyncio.Future[T] = loop.create_future()
        opened = self.opened
        assert opened is not None
        assert self._context is not None

        async def serve() -> None:
            try:
                value = await make(opened)
            except Exception as error:
                if not answer.done():
                    answer.set_exception(error)
            else:
                if not answer.done():
                    answer.set_result(value)

        task = loop.create_task(serve(), context=self._context.copy())
        self._calls.add(answer)

        def ended(done: asyncio.Future[T]) -> None:
            self._calls.discard(done)
            if done.cancelled():
                task.cancel()

        answer.add_done_callback(ended, context=contextvars.Context())
        return await answer


class AnyServer:
    """What agents and operators speak to: one of the servers that run (`link.Desk`)."""

    def __init__(self, servers: list[FleetServer], history: FleetHistory, draw: Draw) -> None:
        self._servers = servers
        self._history = history
        self._draw = draw

    async def call(self, make: Callable[[OpenServer], Awaitable[T]]) -> T:
        """GatewayUnavailable if no server runs, or the one that was called has died."""
        up = [server for server in self._servers if server.is_open]
        if not up:
            raise GatewayUnavailable("no server runs")
        return await self._draw.pick(up).call(make)

    async def start(self, host_id: str, start: AgentStart) -> AgentStarted:
        return await self.call(lambda server: server.desk.start(host_id, start))

    async def sync(self, host_id: str, sync: AgentSync) -> AgentSyncAnswer:
        now = asyncio.get_running_loop().time()
        self._history.heard.setdefault(host_id, []).append(now)
        return await self.call(lambda server: server.desk.sync(host_id, sync))
