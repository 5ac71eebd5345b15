"""A node of the cluster: a process with workers, as the world sees it.

Promises: a crash loses what is volatile and runs nothing more of it; a restart begins from the store alone,
under a new incarnation; a frozen node goes on later with old beliefs.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from typing import Any

from holdfast.core.ids import Ids
from holdfast.queue.backend import Backend
from holdfast.queue.queue import Queue
from holdfast.queue.settings import Settings
from holdfast.sim.bus import SimBus
from holdfast.sim.clock import NodeClock
from holdfast.sim.draw import Draw
from holdfast.sim.driver import RemoteDriver
from holdfast.sim.loop import NODE, SimLoop
from holdfast.sim.net import Net
from holdfast.sim.part import Machine
from holdfast.sim.record import Record
from holdfast.sim.server import NAME, Database
from holdfast.sim.trace import Trace
from holdfast.store.scripts.cascade import BITE
from holdfast.store.sqlite.dialect import SqliteDialect
from holdfast.store.store import Store


class ManyWriters(SqliteDialect):
    """As seen from a node that is one of many: a claim is a transaction of its own."""

    __slots__ = ()
    one_writer = False


class Cluster:
    """What nodes share: the loop, the network, the database."""

    def __init__(
        self,
        loop: SimLoop,
        net: Net,
        database: Database,
        trace: Trace,
        record: Record,
        draw: Draw,
    ) -> None:
        self.loop = loop
        self.net = net
        self.database = database
        self.trace = trace
        self.record = record
        self.draw = draw
        self.nodes: dict[str, Node] = {}

    def buses(self) -> list[tuple[str, SimBus]]:
        return [
            (node.name, node.bus)
            for node in self.nodes.values()
            if node.bus is not None and node.hears
        ]


Main = Callable[["Node", Queue], Coroutine[Any, Any, None]]


async def idle(node: Node, queue: Queue) -> None:
    """Of a node that only answers."""


class Node:
    """One process, through all its lives."""

    def __init__(
        self,
        name: str,
        cluster: Cluster,
        main: Main,
        settings: Settings,
        *,
        together: bool = False,
        cascade_bite: int = BITE,
    ) -> None:
        self.name = name
        self.cluster = cluster
        self.clock = NodeClock(cluster.loop)
        self.bus: SimBus | None = None
        self.queue: Queue | None = None
        self.incarnation = 0
        self.is_up = False
        self.peers: tuple[str, ...] = (NAME,)
        """Whom it talks with: links that can be cut."""
        self.hears = True
        """Whether hints reach it."""
        self.machine: Machine | None = None
        """Its own disk, if it has one."""
        self.when_dead: Callable[[], None] = lambda: None
        """What the system cleans up after it."""
        self._kept: list[asyncio.Task[Any]] = []
        self._sleeps_until = 0.0
        self.main = main
        self._settings = settings
        self._together = together
        """Enqueue and claim may share a transaction."""
        self._cascade_bite = cascade_bite

    @property
    def life(self) -> str:
        """The name of this incarnation."""
        return f"{self.name}#{self.incarnation}"

    def start(self) -> None:
        """A new life, from the store alone."""
        if self.is_up:
            return
        self.incarnation += 1
        self.is_up = True
        cluster = self.cluster
        cluster.net.join(self.name, self.incarnation)
        cluster.trace.note(self.name, f"starts ({self.incarnation})")
        self.bus = SimBus(self.name, cluster.net, cluster.buses)
        context = contextvars.Context()
        context.run(NODE.set, self.life)
        context.run(self._begin)

    def _begin(self) -> None:
        self.queue = Queue(self._backend, self._settings)
        task = self.cluster.loop.create_task(self.main(self, self.queue), name=self.life)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self.cluster.loop.call_exception_handler(
                {"message": f"{self.life} died", "exception": error}
            )

    def _backend(self) -> Backend:
        cluster = self.cluster
        ids = Ids(cluster.draw.stream(self.life))
        driver = RemoteDriver(
            self.name, cluster.net, cluster.database, self.clock, cluster.loop.time
        )
        dialect = (SqliteDialect if self._together else ManyWriters)(self._cascade_bite)
        assert self.bus is not None
        return Backend(Store(driver, dialect, ids), self.bus, self.clock, ids, host=self.life)

    def crash(self) -> None:
        """As by kill -9."""
        if self.is_up:
            self.cluster.trace.note(self.name, "crashes")
            self.cluster.record.died[self.life] = self.cluster.loop.time()
            self.cluster.trace.sometimes("crash")
            self._end()
            self.when_dead()

    def _end(self) -> None:
        self.is_up = False
        self.cluster.net.leave(self.name)
        self.cluster.loop.forget(self.life)
        self.bus = None
        self.queue = None
        self._kept = []

    def retire(self, seconds: float) -> None:
        """The end of a process that has stopped in order; the next one starts after a while."""
        cluster = self.cluster
        cluster.trace.note(self.name, "has stopped")
        cluster.trace.sometimes("stopped")
        if cluster.loop.time() > cluster.net.calm.reached_since(self.name):
            left = cluster.database.running_on(self.life)
            cluster.record.left_behind += [f"{each} still runs on {self.life}" for each in left]
        self._end()
        cluster.loop.call_later(seconds, self.start, context=contextvars.Context())

    def keep(self, task: asyncio.Task[Any]) -> None:
        """As long as the node lives."""
        self._kept.append(task)

    def die(self, seconds: float) -> None:
        """A crash of its own making; whoever watches over processes starts it again after a while."""
        self.crash()
        self.cluster.loop.call_later(seconds, self.start, context=contextvars.Context())

    def freeze(self, seconds: float) -> None:
        """As by SIGSTOP and, later, SIGCONT."""
        if self.is_up and not self.cluster.loop.is_frozen(self.life):
            self.cluster.trace.note(self.name, f"freezes for {seconds:.1f} s")
            self.cluster.trace.sometimes("freeze")
            now = self.cluster.loop.time()
            self.cluster.record.frozen.setdefault(self.life, []).append((now, now + seconds))
            self.cluster.net.calm.stand_still(self.name, now, now + seconds)
            self.cluster.loop.freeze(self.life, seconds)

    def suspend(self, seconds: float) -> None:
        """The machine sleeps, and with it the timers of the process: they come late by so much."""
        if self.is_up and not self.cluster.loop.is_frozen(self.life):
            self.cluster.trace.note(self.name, f"sleeps for {seconds:.1f} s")
            self.cluster.trace.sometimes("suspend")
            now = self.cluster.loop.time()
            self.cluster.record.frozen.setdefault(self.life, []).append((now, now + seconds))
            self.cluster.net.calm.stand_still(self.name, now, now + seconds)
            self.cluster.loop.suspend(self.life, seconds)
            self.clock.slept += seconds
            self._sleeps_until = now + seconds

    def wake(self) -> None:
        """If its machine sleeps, not for longer."""
        if self.cluster.loop.is_frozen(self.life) and self._sleeps_until > self.cluster.loop.time():
            self.clock.slept -= self.cluster.loop.wake(self.life)
