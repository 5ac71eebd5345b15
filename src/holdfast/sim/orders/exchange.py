"""An exchange across the simulated network: the book of the simulated exchange, and its messages.

Promises: requests, replies and fill messages are messages like any other, so they are lost, repeated and
delayed. Orders are filled also while the trader is down. The adapter converts the end of a request's
validity to the exchange's clock, which it knows within what the loop allows. The trader's clock may be wrong.
The exchange rejects orders that it has accepted, reports orders as filled with a little less than
ordered, rounds averages and temporarily does not know an accepted order. Its adapter raises errors of any
class.
Never: steps its clock, places an order twice, or denies an order that was never acknowledged.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from decimal import Decimal
from typing import Final, NamedTuple, TypeVar

import msgspec

from holdfast.errors import StoreUnavailable
from holdfast.orders.errors import ExchangeTimeout
from holdfast.orders.exchange.book import ExchangeBook, Sent
from holdfast.orders.exchange.faults import Faults
from holdfast.orders.exchange.port import ExchangeOrder, Fill, Quote, Request
from holdfast.sim.blocking_thread import BlockingThread
from holdfast.sim.clock import EPOCH
from holdfast.sim.draw import Draw
from holdfast.sim.node import Node

T = TypeVar("T")
REPLY_SECONDS: Final = 1.0
PRICE: Final = Decimal(100)
"""The market does not move; only reports about orders vary."""
FAULTS: Final = Faults(
    rejects=0.05,
    late_rejects=0.1,
    short_fills=0.1,
    average_places=1,
    partial_fills=0.5,
    resting=0.2,
    fill_max_ms=6_000.0,
)
DENIED: Final = 0.1
"""The share of lookups of an accepted order that are answered: not known."""
DENIED_MAX: Final = 2
"""At most this many before the trader hears of the order again, which counts an accepted order as gone after
more (`Pace.gone_asks`). A reply that is lost on its way tells it nothing."""
BROKEN: Final = 0.02
ERRORS: Final = (ConnectionError, ValueError, KeyError, OSError, RuntimeError)


class Sending(NamedTuple):
    """A placement by the trader; the network may deliver it twice."""

    client_order_id: str
    is_blind: bool
    """Whether it was sent again although the exchange had not just said that it does not know the order."""


class Server:
    """The server side."""

    def __init__(self, name: str, trader: Node, seed: int, skew_seconds: float) -> None:
        self.name = name
        self._trader = trader
        self._skew = skew_seconds
        self._net = trader.cluster.net
        self._loop = trader.cluster.loop
        self._trace = trader.cluster.trace
        self._number = 0
        self._announced: set[str] = set()
        self.book = ExchangeBook(seed, FAULTS)
        self.inbox: list[Fill] = []
        self._net.join(name, 1)

    def now(self) -> float:
        return self.estimated_now() + self._skew

    def estimated_now(self) -> float:
        """The exchange's time as its adapter has measured it."""
        return EPOCH + self._loop.time() * self._trader.clock.rate

    def act(self, client_order_id: str, place: Request | None) -> ExchangeOrder | None:
        """Applies a placement or a cancel; returns the order after it."""
        now = self.now()
        self._number += 1
        sent = Sent(
            number=self._number, arrives_at=now, client_order_id=client_order_id, place=place
        )
        self.book.send(sent)
        self.book.settle(now)
        if place is not None:
            self._announce(client_order_id)
        return self.book.view(client_order_id, now)

    def find(self, client_order_id: str) -> ExchangeOrder | None:
        return self.book.view(client_order_id, self.now())

    def truth(self) -> list[ExchangeOrder]:
        return self.book.views(self.now())

    def is_quiet(self) -> bool:
        """Whether no fill is left."""
        now = self.now()
        return all(
            fill.filled_at <= now
            for order in self.book.resting.values()
            for fill in order.plan
            if order.canceled_at is None
        )

    def _announce(self, client_order_id: str) -> None:
        """Sends a message for each fill, when it happens."""
        order = self.book.resting.get(client_order_id)
        if order is None or client_order_id in self._announced:
            return
        self._announced.add(client_order_id)
        rate = self._trader.clock.rate
        for fill in order.plan:
            self._loop.call_later(
                max(0.0, fill.filled_at - self.now()) / rate + 1e-6,
                self._say,
                fill,
                context=contextvars.Context(),
            )

    def _say(self, fill: Fill) -> None:
        order = self.book.resting[fill.client_order_id]
        if fill not in order.fills(self.now()):
            return
        if not self._trader.is_up:
            self._trace.sometimes("fill-while-down")
        self._net.send(self.name, self._trader.name, "fill", lambda: self.inbox.append(fill))


class RemoteExchange:
    """The trader's side, for blocking code: see `holdfast.orders.exchange.port.Exchange`."""

    def __init__(
        self,
        server: Server,
        node: Node,
        blocking_thread: BlockingThread,
        *,
        draw: Draw,
        store_now: Callable[[], float],
        is_accepted: Callable[[str], bool],
        is_calm: Callable[[], bool],
    ) -> None:
        self._draw = draw
        self._store_now = store_now
        self._is_accepted = is_accepted
        self._is_calm = is_calm
        self._denied: dict[str, int] = {}
        self._server = server
        self._node = node
        self._blocking_thread = blocking_thread
        self._may_send: dict[str, bool] = {}
        self.sendings: list[Sending] = []
        server.inbox.clear()

    def place(self, request: Request) -> ExchangeOrder:
        name = request.client_order_id
        self.sendings.append(Sending(name, not self._may_send.get(name, True)))
        self._may_send[name] = False
        left_seconds = request.valid_until - self._store_now()
        valid_until = self._server.estimated_now() + left_seconds
        request = msgspec.structs.replace(request, valid_until=valid_until)
        found = self._ask("place", lambda: self._server.act(name, request))
        if found is None:
            raise ExchangeTimeout(f"{name} came too late for the exchange")
        return found

    def cancel(self, client_order_id: str) -> ExchangeOrder | None:
        if self._denies(client_order_id):
            return None
        return self._heard(self._ask("cancel", lambda: self._server.act(client_order_id, None)))

    def find(self, client_order_id: str) -> ExchangeOrder | None:
        if self._denies(client_order_id):
            return None
        found = self._heard(self._ask("find", lambda: self._server.find(client_order_id)))
        self._may_send[client_order_id] = found is None
        return found

    def orders(self) -> list[ExchangeOrder]:
        found = self._ask("orders", self._server.truth)
        return [each for each in found if not self._denies(each.client_order_id)]

    def fills(self) -> list[Fill]:
        come, self._server.inbox = self._server.inbox, []
        return come

    def quote(self, symbol: str) -> Quote:
        return Quote(symbol, PRICE, PRICE + 1, self._node.clock.now())

    def _denies(self, name: str) -> bool:
        """Whether to deny an order that the store has as accepted."""
        times = self._denied.get(name, 0)
        is_denied = (
            not self._is_calm()
            and times < DENIED_MAX
            and self._draw.chance(DENIED)
            and self._is_accepted(name)
        )
        if is_denied:
            self._denied[name] = times + 1
            self._node.cluster.trace.sometimes("exchange-denies")
        return is_denied

    def _heard(self, found: ExchangeOrder | None) -> ExchangeOrder | None:
        """An answer about one order that has reached the trader."""
        if found is not None:
            self._denied.pop(found.client_order_id, None)
        return found

    def _break(self, what: str) -> None:
        """Raises like an adapter, before or after the call took effect."""
        if not self._is_calm() and self._draw.chance(BROKEN):
            self._node.cluster.trace.sometimes("exchange-broken", what)
            raise self._draw.pick(ERRORS)("of the adapter \udcff")

    def _ask(self, what: str, serve: Callable[[], T]) -> T:
        async def asked() -> T:
            async with asyncio.timeout(REPLY_SECONDS):
                return await self._node.cluster.net.call(
                    self._node.name, self._server.name, what, serve
                )

        self._break(what)
        try:
            answer = self._blocking_thread.call(asked)
        except (TimeoutError, StoreUnavailable):
            self._node.cluster.trace.sometimes("exchange-silent", what)
            raise ExchangeTimeout(f"no reply to {what} within {REPLY_SECONDS:g} s") from None
        self._break(what)
        return answer
