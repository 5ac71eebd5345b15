"""An exchange across the simulated network: the book of the product's own simulated one, and its messages.

Promises: requests, replies and fill messages are messages like any other, so they get lost, doubled and late;
orders are filled while no one listens. The adapter converts the end of a request's validity to the exchange's
clock, which it knows to within what the loop allows for, whatever the trader's own clock says.
It changes its mind: it rejects what it accepted, calls filled what is not quite, rounds averages, does not
know an accepted order for a moment; the adapter before it raises errors of any class.
Never: a step of the clock, an order that acts twice, an order that was never acknowledged and is denied.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from decimal import Decimal
from typing import Final, NamedTuple, TypeVar

import msgspec

from holdfast.errors import ExchangeTimeout, StoreUnavailable
from holdfast.orders.exchange import ExchangeOrder, Fill, Quote, Request
from holdfast.orders.exchange_book import ExchangeBook, Sent
from holdfast.orders.faults import Faults
from holdfast.sim.clock import EPOCH
from holdfast.sim.draw import Draw
from holdfast.sim.node import Node
from holdfast.sim.strand import Strand

T = TypeVar("T")
REPLY_SECONDS: Final = 1.0
PRICE: Final = Decimal(100)
"""The market stands still: what moves is the exchange's word about orders."""
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
"""The share of questions about an accepted order that are answered with: not known."""
DENIED_MAX: Final = 2
"""So often in a row at most: then it is there, or gone."""
BROKEN: Final = 0.02
ERRORS: Final = (ConnectionError, ValueError, KeyError, OSError, RuntimeError)


class Sending(NamedTuple):
    """A placement that the trader sent; the network may deliver it twice."""

    client_order_id: str
    is_blind: bool
    """Sent again, though the exchange had not just said that it does not know it."""


class Server:
    """The exchange's side."""

    def __init__(self, name: str, trader: Node, seed: int, skew_seconds: float) -> None:
        self.name = name
        self._trader = trader
        self._skew = skew_seconds
        self._net = trader.cluster.net
        self._loop = trader.cluster.loop
        self._trace = trader.cluster.trace
        self._number = 0
        self._told: set[str] = set()
        self.book = ExchangeBook(seed, FAULTS)
        self.inbox: list[Fill] = []
        self._net.join(name, 1)

    def now(self) -> float:
        return self.estimated_now() + self._skew

    def estimated_now(self) -> float:
        """The exchange's time as its adapter has measured it."""
        return EPOCH + self._loop.time() * self._trader.clock.rate

    def act(self, client_order_id: str, place: Request | None) -> ExchangeOrder | None:
        """A placement, or a cancel; the order as it stands after it."""
        now = self.now()
        self._number += 1
        sent = Sent(
            number=self._number, arrives_at=now, client_order_id=client_order_id, place=place
        )
        self.book.send(sent)
        self.book.settle(now)
        if place is not None:
            self._tell(client_order_id)
        return self.book.view(client_order_id, now)

    def find(self, client_order_id: str) -> ExchangeOrder | None:
        return self.book.view(client_order_id, self.now())

    def truth(self) -> list[ExchangeOrder]:
        return self.book.views(self.now())

    def is_quiet(self) -> bool:
        """Whether no fill is to come any more."""
        now = self.now()
        return all(
            fill.filled_at <= now
            for order in self.book.resting.values()
            for fill in order.plan
            if order.canceled_at is None
        )

    def _tell(self, client_order_id: str) -> None:
        """A message for each fill, when it happens."""
        order = self.book.resting.get(client_order_id)
        if order is None or client_order_id in self._told:
            return
        self._told.add(client_order_id)
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
    """How the trader reaches it, in code that blocks: see `holdfast.orders.exchange.Exchange`."""

    def __init__(
        self,
        server: Server,
        node: Node,
        strand: Strand,
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
        self._strand = strand
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
        return self._ask("cancel", lambda: self._server.act(client_order_id, None))

    def find(self, client_order_id: str) -> ExchangeOrder | None:
        if self._denies(client_order_id):
            return None
        found = self._ask("find", lambda: self._server.find(client_order_id))
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
        """Says that it does not know an order that the store has it accepted."""
        times = self._denied.get(name, 0)
        is_denied = (
            not self._is_calm()
            and times < DENIED_MAX
            and self._draw.chance(DENIED)
            and self._is_accepted(name)
        )
        self._denied[name] = times + 1 if is_denied else 0
        if is_denied:
            self._node.cluster.trace.sometimes("exchange-denies")
        return is_denied

    def _break(self, what: str) -> None:
        """As an adapter does, before or after its call had its effect."""
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
            answer = self._strand.call(asked)
        except (TimeoutError, StoreUnavailable):
            self._node.cluster.trace.sometimes("exchange-silent", what)
            raise ExchangeTimeout(f"no reply to {what} within {REPLY_SECONDS:g} s") from None
        self._break(what)
        return answer
