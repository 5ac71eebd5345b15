"""A trader: the execution loop on an order store, in files or in the database, through all its lives.

Promises: the loop, the desk, the risk monitor and the stores are product code; they block, in a blocking
thread. The state after a restart is compared with the durable state before it.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from holdfast.errors import StoreUnavailable
from holdfast.orders.errors import StoreFailed
from holdfast.orders.logstore.durable import DurableOrderStore
from holdfast.orders.model.store import OrderStore
from holdfast.orders.sqlstore.blocking import BlockingSqlOrders
from holdfast.orders.sqlstore.store import SqlOrders
from holdfast.primitives.kv import RedisKV
from holdfast.queue.queue import Queue
from holdfast.sim.blocking_thread import BlockingThread, BlockingThreadClock, Killed
from holdfast.sim.draw import Draw
from holdfast.sim.node import Node
from holdfast.sim.order_history import OrderHistory
from holdfast.sim.orders.exchange import RemoteExchange, Server
from holdfast.sim.orders.files import Files
from holdfast.sim.orders.memory import Memory
from holdfast.sim.orders.meter import Noticing
from holdfast.sim.orders.strategy import RESTS, Strategy
from holdfast.store.store import Store

DOWN_SECONDS: Final = 10.0
FILES: Final = "files"
MEMORY: Final = Path("/dev/shm")
"""Syncs are simulated: real ones would only cost time."""


class Trader:
    """See `sim.subsystem.Subsystem`. Its orders are in files, or in the database."""

    def __init__(self, node: Node, server: Server, draw: Draw, kind: str) -> None:
        self.node = node
        self.server = server
        self._draw = draw
        self._blocking_thread = BlockingThread()
        self.history = OrderHistory(node.name, kind, node.cluster.loop.time)
        self._strategy = Strategy(node, self.history, server.is_quiet, draw.stream("strategy"))
        self.files: Files | None = None
        self._folder: TemporaryDirectory[str] | None = None
        if kind == FILES:
            place = str(MEMORY) if MEMORY.is_dir() else None
            self._folder = TemporaryDirectory(prefix="holdfast-sim-", dir=place)
            folder = Path(self._folder.name)
            self.files = Files(folder, draw.stream("files"), node.cluster.trace)
            node.local_disk = self
            self.files.when_dying = self._dying
            self.files.before_trouble = self._remember
        self._view = RedisKV(node.clock.now) if draw.stream("view").chance(0.5) else None
        """A Redis that survives the process, or one that does not."""
        self._store: DurableOrderStore | None = None
        self._exchange: RemoteExchange | None = None
        self._memory = Memory(node.cluster.trace)
        self._end = asyncio.Event()
        node.when_dead = self._crashed

    # -- called by the world
    # -------------------------------------------------------------------------

    def calm(self) -> None:
        self._strategy.is_calm = True
        if self.files is not None:
            self.files.heal()

    def is_at_rest(self) -> bool:
        return self._strategy.rests >= RESTS

    async def report(self) -> None:
        """The final state, for the checkers."""
        history = self.history
        if not self.is_at_rest():
            history.restless = f"the books of {self.node.name} did not come to agree"
        if self._store is not None:
            history.final = self._store.orders()
            history.wrong = self._store.verify()
        elif self.node.queue is not None:
            resources = await self.node.queue.open()
            history.final = await SqlOrders(resources.store).orders()
        for order in history.final:
            step = f"{order.client_order_id} {order.state} {order.version} {order.filled_qty}"
            self.node.cluster.trace.step(step)
        history.truth = self.server.truth()
        history.acted = self.server.book.acted
        self._count_blind()

    def end(self) -> None:
        self._blocking_thread.kill()
        self._let_go()
        if self._folder is not None:
            self._folder.cleanup()

    def spoil(self, full: float, failing: float) -> None:
        assert self.files is not None
        self.files.full, self.files.failing = full, failing

    def die_after(self, operations: int, kind: str) -> None:
        assert self.files is not None
        self.files.dying = (operations, kind)

    # -- a life ------------------------------------------------------------------------------------

    async def main(self, node: Node, queue: Queue) -> None:
        draw = self._draw.stream(node.life)
        self._blocking_thread = BlockingThread()
        store = None
        if self.files is None:
            store = await _opened(node, queue)
        else:
            beside = self._strategy.beside(lambda: self._store, draw.stream("beside"))
            node.keep(asyncio.create_task(beside))
        try:
            await self._blocking_thread.run(lambda: self._live(store, draw))
        except Killed:
            # The reference keeps this task from being garbage-collected before the life ends.
            self._end = asyncio.Event()
            await self._end.wait()

    def _live(self, database: Store | None, draw: Draw) -> None:
        """Blocks as long as the node lives."""
        clock = BlockingThreadClock(self.node.clock, self._blocking_thread)
        while True:
            try:
                store = self._open(database)
            except StoreUnavailable:
                clock.pause(1.0)
                continue
            self._count_blind()
            self._exchange = RemoteExchange(
                *(self.server, self.node, self._blocking_thread),
                draw=draw.stream("mood"),
                store_now=store.now,
                is_accepted=self.history.is_accepted,
                is_calm=lambda: self._strategy.is_calm,
            )
            try:
                self._strategy.trade(store, self._exchange, clock, draw)
            except StoreFailed:
                self.node.cluster.trace.sometimes("orders-reopened")
                self._let_go()
            except KeyboardInterrupt:
                self.node.cluster.trace.sometimes("orders-interrupted")
                self._memory.forget()  # The store may have half of a change in memory.
                self._let_go()

    def _open(self, database: Store | None) -> OrderStore:
        if database is not None:
            orders = SqlOrders(database, namespace=self.node.name)
            return BlockingSqlOrders(database, orders, self._blocking_thread)
        assert self.files is not None
        meter = Noticing(self.node.cluster.trace)
        store = DurableOrderStore(
            self._view or RedisKV(self.node.clock.now),
            self.files.folder,
            self.node.clock.now,
            namespace=self.node.name,
            meter=meter,
            disk=self.files,
            timer=self.node.clock.monotonic,
        )
        meter.is_opening = False
        if (lost := self._memory.compare(store)) is not None:
            self.history.lost.append(f"{self.node.life} {lost}")
        self._store = store
        return store

    # -- restarts ----------------------------------------------------------------------------------

    def _remember(self) -> None:
        if self._store is not None:
            self._memory.note(self._store)

    def _dying(self, kind: str) -> None:
        """Dies in the middle of a step of the disk, the loop or a concurrent caller."""
        loop = self.node.cluster.loop
        if threading.current_thread() is self._blocking_thread.thread:
            # Its own code ends first, which closes its files.
            loop.call_soon(self._die, kind, context=contextvars.Context())
        else:
            self._die(kind)

    def _die(self, kind: str) -> None:
        self.node.crash()
        if kind == "power":
            self.lose_power()
        seconds = self._draw.between(0.1, DOWN_SECONDS)
        loop = self.node.cluster.loop
        loop.call_later(seconds, self.node.start, context=contextvars.Context())

    def lose_power(self) -> None:
        """Once the node is down."""
        assert self.files is not None
        self.node.cluster.trace.note(self.node.name, "loses power")
        self.files.lose_power()

    def _crashed(self) -> None:
        """What the system does for a process that has ended."""
        self._remember()
        self._blocking_thread.kill()
        self._let_go()
        if self.files is not None:
            self.files.revive()

    def _let_go(self) -> None:
        self._count_blind()
        if self._store is not None:
            self._store._journal.close()
            self._store = None

    def _count_blind(self) -> None:
        if self._exchange is not None:
            sent, self._exchange.sendings = self._exchange.sendings, []
            self.history.blind += [each.client_order_id for each in sent if each.is_blind]


async def _opened(node: Node, queue: Queue) -> Store:
    while True:
        try:
            return (await queue.open()).store
        except StoreUnavailable:
            await node.clock.sleep(1.0)
