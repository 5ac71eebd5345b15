"""One run: a cluster with its workload, a phase with faults, and a recovery phase.

Promises: the same plan gives the same run. After the fault phase all faults end, and within the plan's
`recover_hours` every task must end; then the checkers evaluate the outcome.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from holdfast.core import gate
from holdfast.core.ids import Ids
from holdfast.core.task import ENDED, Status, Task
from holdfast.errors import StoreUnavailable
from holdfast.queue.queue import Queue
from holdfast.queue.settings import Settings
from holdfast.sim.clock import NodeClock
from holdfast.sim.disk import Disk
from holdfast.sim.draw import Draw
from holdfast.sim.faults import FaultInjector
from holdfast.sim.handler_outcomes import EXTERNAL, HandlerOutcomes
from holdfast.sim.leavings import plain_records
from holdfast.sim.loop import SimLoop
from holdfast.sim.net import Net
from holdfast.sim.node import Cluster, Main, Node, idle
from holdfast.sim.observer import Observer
from holdfast.sim.outcome import Outcome, all_events, all_tasks, describe_failures, in_memory
from holdfast.sim.primitives import PAID, Holders, run_primitives
from holdfast.sim.record import Record
from holdfast.sim.schedules import SCHEDULED
from holdfast.sim.server import NAME, Database
from holdfast.sim.service import serve
from holdfast.sim.subsystem import Subsystem
from holdfast.sim.subsystems import subsystems_of
from holdfast.sim.swarm import Plan
from holdfast.sim.trace import Trace
from holdfast.sim.user_handlers import UserHandlers, bind
from holdfast.sim.workload import Client
from holdfast.sim.zones import zoneless
from holdfast.store.sqlite.dialect import SqliteDialect
from holdfast.store.store import Store

POLL_SECONDS: Final = 20.0
ENDLESS: Final = frozenset({*SCHEDULED, PAID, EXTERNAL})
"""Types that are enqueued without end, or that no worker runs."""


class World:
    """Builds the cluster of a plan and runs it."""

    def __init__(self, plan: Plan, user_handlers: UserHandlers | None = None) -> None:
        self.plan = plan
        self._user_handlers = user_handlers
        draw = Draw(plan.seed, "world")
        self.loop = SimLoop(draw.stream("schedule"))  # type: ignore[abstract]
        self.trace = Trace(self.loop.time)
        self.record = Record(self.loop.time)
        net = Net(self.loop, draw.stream("net"), self.trace)
        self._folder = TemporaryDirectory(prefix="holdfast-sim-") if plan.has_disk else None
        disk = None
        if self._folder is not None:
            disk = Disk(f"sim{plan.seed}", Path(self._folder.name), draw.stream("disk"), self.trace)
        self.database = Database(NodeClock(self.loop), self.trace, disk)
        self.cluster = Cluster(
            self.loop,
            net,
            self.database,
            trace=self.trace,
            record=self.record,
            draw=draw.stream("ids"),
        )
        self._draw = draw
        self._calm = False
        settings = Settings(
            lease_seconds=plan.lease_seconds,
            max_workers=plan.max_workers,
            keep_done=plan.keep_seconds,
            keep_dead=1e9,
            keep_events=1e9,
        )
        for n in range(plan.nodes):
            self._add(f"w{n}", self._worker, settings=settings)
        for n in range(plan.clients):
            self._add(f"c{n}", self._client, settings=settings)
        self._add("s0", self._subscriber, settings=settings)
        for n in range(plan.holders):
            self._add(f"l{n}", self._holder, settings=settings)
        holders = [f"l{n}" for n in range(plan.holders)]
        self.subsystems: list[Subsystem] = [Holders(holders, self.record)]
        if user_handlers is None:
            add = partial(self._add, settings=settings)
            self.subsystems += subsystems_of(plan, add, self.record, draw.stream("parts"), settings)
        nodes = list(self.cluster.nodes.values())
        self.faults = FaultInjector(plan, self.cluster, nodes, draw.stream("trouble"))

    def _add(self, name: str, main: Main = idle, *, settings: Settings) -> Node:
        node = Node(
            name,
            self.cluster,
            main,
            settings,
            together=self.plan.together,
            cascade_batch=self.plan.cascade_batch,
        )
        self.cluster.nodes[name] = node
        return node

    # -- mains of nodes -------------------------------------------------------------------------

    async def _worker(self, node: Node, queue: Queue) -> None:
        if self._user_handlers is None:
            HandlerOutcomes(node, self.record, self._draw.stream(f"temper {node.life}")).register(
                queue
            )
        else:
            bind(
                self._user_handlers,
                queue.definitions.handlers,
                lambda t: self.record.ran(t.id, t.fence, node.life),
            )
        requests = self._draw.stream(f"wishes {node.life}")
        await serve(
            node,
            queue,
            requests,
            request_seconds=self.plan.request_seconds,
            has_schedules=self.plan.schedules and self._user_handlers is None,
            is_calm=lambda: self._calm,
        )

    async def _client(self, node: Node, queue: Queue) -> None:
        draw = self._draw.stream(f"client {node.life}")
        client = Client(
            node.life, queue, self.record, draw, self._user_handlers, children=self.plan.children
        )
        while not self._calm:
            await node.clock.sleep(draw.wait(self.plan.act_seconds))
            if not self._calm:
                await client.act()

    async def _holder(self, node: Node, queue: Queue) -> None:
        await run_primitives(node, queue, self.record, self._draw.stream(f"holder {node.life}"))

    async def _subscriber(self, node: Node, queue: Queue) -> None:
        """Reads the feed, and resumes after a restart at the position it had reached."""
        positions = self.record.positions_read.setdefault(node.name, [])
        if positions:
            self.trace.sometimes("feed-resumed")
        queue.on_event(lambda event: self.trace.step(f"heard {event.kind}"))
        while True:
            try:
                async for event in queue.events(positions[-1] if positions else None):
                    positions.append(str(event.position))
            except StoreUnavailable:
                await node.clock.sleep(1.0)

    # -- the run -----------------------------------------------------------------------------------

    def run(self) -> Outcome:
        try:
            with zoneless(), plain_records():
                outcome: Outcome = self.loop.run_until_complete(self._run())
            return outcome
        finally:
            for subsystem in self.subsystems:
                subsystem.end()
            self.subsystems.clear()
            self.cluster.nodes.clear()
            self.faults.forget()
            self.loop.close()
            self.database.close()
            if self._folder is not None:
                self._folder.cleanup()

    async def _run(self) -> Outcome:
        await self.database.open()
        self.cluster.net.join(NAME, 1)
        for node in self.cluster.nodes.values():
            node.start()
        self.cluster.net.when_server_gone(self.faults.server_gone)
        observer = Observer(self.cluster)
        self.database.when_lost = observer.lost
        observer.begin()
        self.faults.begin()
        injecting = asyncio.create_task(self.faults.run())
        await asyncio.sleep(self.plan.hours * 3600)
        injecting.cancel()
        self._calm = True
        for subsystem in self.subsystems:
            subsystem.calm()
        self.faults.end()
        self.trace.note(NAME, "everything heals")
        unfinished = await self._recover()
        return await self._outcome(unfinished)

    async def _recover(self) -> list[Task]:
        """Resumes paused tasks and queues until all tasks have ended. Returns the tasks that have not."""
        store = self._store()
        end = self.loop.time() + self.plan.recover_hours * 3600
        while True:
            await asyncio.sleep(POLL_SECONDS)
            waiting = [task for task in (await all_tasks(store)) if task.status not in ENDED]
            waiting = [task for task in waiting if task.type not in ENDLESS]
            is_at_rest = not (waiting or self.database.cascades())
            is_at_rest = is_at_rest and all(subsystem.is_at_rest() for subsystem in self.subsystems)
            if is_at_rest or self.loop.time() > end:
                return waiting
            for task in waiting:
                decision_id = gate.decision_of(task)
                if gate.is_held(task) or (task.status is Status.PAUSED and decision_id is None):
                    await self._operator("resume", task.id)
                elif decision_id is not None:
                    await self._operator("answer", decision_id)
            await self._operator("open", "default")

    async def _operator(self, verb: str, name: str) -> None:
        node = next(node for node in self.cluster.nodes.values() if node.name.startswith("w"))
        if node.queue is None or not node.queue.is_running():
            return
        try:
            if verb == "resume":
                await node.queue.resume_task(name, actor="operator")
            elif verb == "answer":
                await node.queue.decide(name, "yes", actor="operator")
            else:
                await node.queue.resume_queue(name, actor="operator")
        except Exception as error:
            self.trace.step(f"operator {error}")

    def _store(self) -> Store:
        """The store, accessed directly and not over the network."""
        return Store(self.database.driver, SqliteDialect(), Ids(self._draw.stream("judge")))

    async def _outcome(self, unfinished: Sequence[Task]) -> Outcome:
        for subsystem in self.subsystems:
            await subsystem.report()  # Virtual time may pass here, and not after it.
        store = self._store()
        events = await all_events(store)
        tasks = {task.id: task for task in await all_tasks(store)}
        return Outcome(
            plan=self.plan,
            record=self.record,
            history=self.database.history,
            tasks=tasks,
            events=events,
            edges=self.database.edges(),
            left=self.database.left,
            counters=await store.feed.counters(),
            in_memory=in_memory(self.cluster.nodes.values()),
            lost=self.database.lost,
            unfinished=list(unfinished),
            failures=describe_failures(self.loop.failures),
            healed_at=self.plan.hours * 3600,
            seconds=self.loop.time(),
            trace=self.trace,
            steps=self.loop.steps,
        )
