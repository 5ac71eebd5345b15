"""The strategy of a simulated trader: it places, repeats, cancels, freezes and thaws orders, then stops.

Promises: the same key is the same order in every life of the process. The answers to callers are recorded.
Blocking code for the execution loop, async code for concurrent callers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from decimal import Decimal
from typing import Final

from holdfast.errors import Conflict, HoldfastError, StoreUnavailable
from holdfast.orders.errors import ExchangeTimeout, OrdersFrozen, StoreFailed
from holdfast.orders.exchange.port import Exchange
from holdfast.orders.execution.loop import ExecutionLoop
from holdfast.orders.execution.risk import RiskMonitor
from holdfast.orders.logstore.durable import DurableOrderStore
from holdfast.orders.model.order import Intent, Side
from holdfast.orders.model.store import OrderStore
from holdfast.sim.blocking_thread import BlockingThreadClock
from holdfast.sim.draw import Draw
from holdfast.sim.node import Node
from holdfast.sim.order_history import OrderHistory
from holdfast.sim.orders.interrupt import Interrupt
from holdfast.sim.orders.meter import Noticing

SYMBOLS: Final = ("BTCUSDT", "ETHUSDT")
ROUND_SECONDS: Final = 4.0
BESIDE_SECONDS: Final = 20.0
RESTS: Final = 2
"""How many times in a row both books must agree."""
VERBS: Final = (
    *("place",) * 8,
    *("again",) * 2,
    *("cancel", "freeze", "wish"),
    *("interrupt",) * 2,
    *("save",) * 2,
)
POINTS_MAX: Final = 120
"""Points of a call at which an interrupt may come, counted as Python would deliver it."""


class Strategy:
    """The strategy of one trader, through all its lives."""

    def __init__(
        self, node: Node, history: OrderHistory, is_quiet: Callable[[], bool], draw: Draw
    ) -> None:
        self._node = node
        self._trace = node.cluster.trace
        self._history = history
        self._is_quiet = is_quiet
        self._risk = RiskMonitor()
        self._draw = draw
        self._wishes = 0
        self.is_calm = False
        self.rests = 0

    # -- the blocking loop
    # -------------------------------------------------------------------------

    def trade(
        self, store: OrderStore, exchange: Exchange, clock: BlockingThreadClock, draw: Draw
    ) -> None:
        """Trades until the store has failed, or the node dies."""
        loop: ExecutionLoop | None = None
        while True:
            try:
                loop = loop or self._made(store, exchange, clock)
                if not loop.is_ready:
                    loop.recover_from_restart()
                    self._trace.sometimes("orders-recovered")
                loop.step()
                self._settle(loop) if self.is_calm else self._act(loop, draw)
                for order in store.open_orders():
                    self._history.sees(order)
            except StoreFailed:
                raise
            except (ExchangeTimeout, StoreUnavailable, Conflict) as error:
                self._trace.sometimes(f"orders {error.code}")
            clock.pause(draw.wait(ROUND_SECONDS))

    def _made(
        self, store: OrderStore, exchange: Exchange, clock: BlockingThreadClock
    ) -> ExecutionLoop:
        meter = Noticing(self._trace, self._history.given_up)
        self._risk = RiskMonitor()
        return ExecutionLoop(
            exchange=exchange,
            order_store=store,
            risk_monitor=self._risk,
            clock=clock,
            meter=meter,
        )

    def _act(self, loop: ExecutionLoop, draw: Draw) -> None:
        state = loop.store.freeze_state()
        if state.frozen:
            if draw.chance(0.3) and not loop.store.open_orders():
                self._history.thaws(state.epoch)
                loop.thaw()
            return
        match draw.pick(VERBS):
            case "place":
                self._place(loop, self._wish(draw))
            case "again" if self._history.placed:
                self._place(loop, self._intent(draw.pick(self._history.placed).key))
            case "cancel":
                if waiting := loop.store.open_orders():
                    loop.cancel(draw.pick(waiting).client_order_id)
            case "freeze":
                self._history.freezes(loop.freeze("drawn"))
            case "wish":
                self._wish_for_a_freeze(loop, draw)
            case "interrupt" if isinstance(loop.store, DurableOrderStore):
                self._interrupted(loop, draw)
            case "save":
                loop.store.save_snapshot()

    def _wish_for_a_freeze(self, loop: ExecutionLoop, draw: Draw) -> None:
        """Requests a freeze from another thread: nothing is placed from then on."""
        self._risk.freeze("another thread says stop")
        wish = self._wish(draw)
        try:
            self._history.late.append(loop.place(wish).client_order_id)
        except OrdersFrozen:
            self._trace.sometimes("orders-wish-refused")

    def _interrupted(self, loop: ExecutionLoop, draw: Draw) -> None:
        """Interrupts a placement, then runs the exit path of a program."""
        interrupt = Interrupt(draw.whole(1, POINTS_MAX))
        try:
            with interrupt.armed():
                self._place(loop, self._wish(draw))
        except KeyboardInterrupt:
            with suppress(StoreFailed):
                loop.store.freeze("interrupted")
                for order in loop.store.open_orders():
                    self._history.sees(order)
            raise

    def _settle(self, loop: ExecutionLoop) -> None:
        """Places nothing new until both books agree."""
        state = loop.store.freeze_state()
        if state.frozen and not loop.store.open_orders():
            self._history.thaws(state.epoch)
            loop.thaw()
        is_quiet = self._is_quiet()
        is_even = not loop.reconcile() and not loop.store.freeze_state().frozen and is_quiet
        self.rests = self.rests + 1 if is_even else 0

    def _place(self, loop: ExecutionLoop, intent: Intent) -> None:
        self._history.asks(intent.key)
        self._history.tells(intent.key, loop.place(intent))

    def _wish(self, draw: Draw) -> Intent:
        self._wishes += 1
        return self._intent(f"{self._node.name}:{self._wishes}")

    def _intent(self, key: str) -> Intent:
        """The intent of a key, the same in every life."""
        chance = self._draw.stream(f"intent {key}")
        side = Side.BUY if chance.chance(0.5) else Side.SELL
        qty, price = Decimal(chance.whole(1, 40)) / 10, Decimal(chance.whole(900, 1100)) / 10
        return Intent(chance.pick(SYMBOLS), side, qty, price, key)

    # -- concurrent async callers
    # ------------------------------------------------------------------

    async def beside(self, store: Callable[[], DurableOrderStore | None], draw: Draw) -> None:
        """Concurrent calls that share a write; some of them freeze."""
        while not self.is_calm:
            await self._node.clock.sleep(draw.wait(BESIDE_SECONDS))
            found = store()
            if found is None or self.is_calm:
                continue
            if draw.chance(0.2):
                await self._quietly(self._freeze(found))
                continue
            wishes = [self._wish(draw) for _ in range(draw.whole(1, 4))]
            await asyncio.gather(*(self._quietly(self._note(found, wish)) for wish in wishes))

    async def _note(self, store: DurableOrderStore, wish: Intent) -> None:
        """An intent that is never sent: the loop finds and settles it."""
        self._history.asks(wish.key)
        order = await store.aio.place_order(wish.symbol, wish.side, wish.qty, wish.price, wish.key)
        self._history.tells(wish.key, order)

    async def _freeze(self, store: DurableOrderStore) -> None:
        self._history.freezes(await store.aio.freeze("from beside"))

    async def _quietly(self, work: Awaitable[None]) -> None:
        try:
            await work
        except HoldfastError as error:
            self._trace.sometimes(f"orders {error.code}")
