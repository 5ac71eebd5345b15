"""A node of the simulated cluster: one process with its restarts.

Promises: a crash loses volatile state and runs no more of its code; a restart begins from the store alone,
as a new incarnation; a frozen node continues later with stale state.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from holdfast.core.ids import Ids
from holdfast.queue.parts import Parts
from holdfast.queue.queue import Queue
from holdfast.queue.session import Resources
from holdfast.queue.settings import Settings
from holdfast.sim.bus import SimBus
from holdfast.sim.clock import NodeClock
from holdfast.sim.draw import Draw
from holdfast.sim.driver import RemoteDriver
from holdfast.sim.loop import NODE, SimLoop
from holdfast.sim.net import Net
from holdfast.sim.record import Record
from holdfast.sim.server import NAME, Database
from holdfast.sim.subsystem import LocalDisk
from holdfast.sim.trace import Trace
from holdfast.store.scripts.cascade import BATCH
from holdfast.store.sqlite.dialect import SqliteDialect
from holdfast.store.store import Store


class ManyWriters(SqliteDialect):
    """The dialect of one node among many: a claim is a separate transaction."""

    __slots__ = ()
    one_writer = False


class Cluster:
    """Shared by all nodes: loop, network, database, trace, record."""

    def __init__(
        self,
        loop: SimLoop,
        net: Net,
        database: Database,
        *,
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
    """The main of a node that only answers requests."""


class Node:
    """One process with its restarts."""

    def __init__(
        self,
        name: str,
        cluster: Cluster,
        main: Main,
        settings: Settings,
        *,
        together: bool = False,
        cascade_batch: int = BATCH,
    ) -> None:
        self.name = name
        self.cluster = cluster
        self.clock = NodeClock(cluster.loop)
        self.bus: SimBus | None = None
        self.queue: Queue | None = None
        self.incarnation = 0
        self.life = f"{name}#0"
        """The name of this incarnation."""
        self.is_up = False
        self.peers: tuple[str, ...] = (NAME,)
        """Nodes it exchanges messages with: links that can be cut."""
        self.hears = True
        """Whether hints reach it."""
        self.local_disk: LocalDisk | None = None
        """The disk of this node, if it has one."""
        self.when_dead: Callable[[], None] = lambda: None
        """Called after a crash."""
        self._background: list[asyncio.Task[Any]] = []
        self._suspended_until = 0.0
        self.main = main
        self._settings = settings
        self._together = together
        """Whether enqueue and claim may share a transaction."""
        self._cascade_batch = cascade_batch

    def start(self) -> None:
        """Starts a new incarnation from the store alone."""
        if self.is_up:
            return
        self.incarnation += 1
        self.life = f"{self.name}#{self.incarnation}"
        self.is_up = True
        cluster = self.cluster
        cluster.net.join(self.name, self.incarnation)
        cluster.trace.note(self.name, f"starts ({self.incarnation})")
        self.bus = SimBus(self.name, cluster.net, cluster.buses)
        context = contextvars.Context()
        context.run(NODE.set, self.life)
        context.run(self._begin)

    def _begin(self) -> None:
        self.queue = Queue(partial(Parts, self._resources, self._settings))
        task = self.cluster.loop.create_task(self.main(self, self.queue), name=self.life)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self.cluster.loop.call_exception_handler(
                {"message": f"{self.life} died", "exception": error}
            )

    def _resources(self) -> Resources:
        cluster = self.cluster
        ids = Ids(cluster.draw.stream(self.life))
        driver = RemoteDriver(
            self.name, cluster.net, cluster.database, self.clock, cluster.loop.time
        )
        dialect = (SqliteDialect if self._together else ManyWriters)(self._cascade_batch)
        assert self.bus is not None
        return Resources(Store(driver, dialect, ids), self.bus, self.clock, ids, host=self.life)

    def crash(self) -> None:
        """Ends the process as kill -9 does."""
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
        self._background = []

    def retire(self, seconds: float) -> None:
        """Ends a process that has stopped gracefully. The next one starts after `seconds`."""
        cluster = self.cluster
        cluster.trace.note(self.name, "has stopped")
        cluster.trace.sometimes("stopped")
        if cluster.loop.time() > cluster.net.disturbances.reached_since(self.name):
            task_ids = cluster.database.running_on(self.life)
            cluster.record.left_behind += [
                f"{task_id} still runs on {self.life}" for task_id in task_ids
            ]
        self._end()
        cluster.loop.call_later(seconds, self.start, context=contextvars.Context())

    def keep(self, task: asyncio.Task[Any]) -> None:
        """Keeps a reference to a background task while the process runs."""
        self._background.append(task)

    def die(self, seconds: float) -> None:
        """Crashes from inside. A supervisor starts it again after `seconds`."""
        self.crash()
        self.cluster.loop.call_later(seconds, self.start, context=contextvars.Context())

    def freeze(self, seconds: float) -> None:
        """Stops the process as SIGSTOP does; it continues after `seconds`."""
        if self.is_up and not self.cluster.loop.is_frozen(self.life):
            self.cluster.trace.note(self.name, f"freezes for {seconds:.1f} s")
            self.cluster.trace.sometimes("freeze")
            now = self.cluster.loop.time()
            self.cluster.record.frozen.setdefault(self.life, []).append((now, now + seconds))
            self.cluster.net.disturbances.stop(self.name, now, now + seconds)
            self.cluster.loop.freeze(self.life, seconds)

    def suspend(self, seconds: float) -> None:
        """Suspends the machine: the timers of the process fire `seconds` late."""
        if self.is_up and not self.cluster.loop.is_frozen(self.life):
            self.cluster.trace.note(self.name, f"sleeps for {seconds:.1f} s")
            self.cluster.trace.sometimes("suspend")
            now = self.cluster.loop.time()
            self.cluster.record.frozen.setdefault(self.life, []).append((now, now + seconds))
            self.cluster.net.disturbances.stop(self.name, now, now + seconds)
            self.cluster.loop.suspend(self.life, seconds)
            self.clock.slept += seconds
            self._suspended_until = now + seconds

    def wake(self) -> None:
        """Ends a suspend."""
        if (
            self.cluster.loop.is_frozen(self.life)
            and self._suspended_until > self.cluster.loop.time()
        ):
            self.clock.slept -= self.cluster.loop.wake(self.life)
