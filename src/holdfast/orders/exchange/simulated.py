"""A simulated exchange: latency, rejects, partial fills, lost replies, repeated and reordered messages.

Promises: everything follows from one seed and the injected clock. With a `path` the exchange survives the
process: opening the same file again shows the same orders, including fills of the time between. Messages
of that time are lost.
Never: uses `random`. On a virtual clock a call advances virtual time.
"""

from __future__ import annotations

import heapq
from decimal import Decimal
from pathlib import Path
from typing import Final

from holdfast.clock import BlockingClock
from holdfast.orders.errors import ExchangeTimeout
from holdfast.orders.exchange.book import PRICE_STEP, ExchangeBook, Sent
from holdfast.orders.exchange.faults import CALM, Fate, Faults, between, draw
from holdfast.orders.exchange.log import ExchangeLog
from holdfast.orders.exchange.port import ExchangeOrder, Fill, Quote, Request

TICK_SECONDS: Final = 0.5
REORDER_SECONDS: Final = 4.0


def base_price(seed: int, symbol: str) -> float:
    """The price around which the market in a symbol moves."""
    return between(10, 1000, draw(seed, "base", symbol))


class SimulatedExchange:
    """An `Exchange`."""

    def __init__(
        self,
        clock: BlockingClock,
        *,
        seed: int = 0,
        faults: Faults = CALM,
        path: Path | None = None,
    ) -> None:
        self.clock = clock
        self._seed = seed
        self._faults = faults
        self._calls = 0
        self._messages: list[tuple[float, int, Fill]] = []
        self._announced: dict[str, int] = {}
        self.book = ExchangeBook(seed, faults)
        self._log = ExchangeLog(path, seed) if path else None
        self.latest_at = 0.0
        """When the last known request arrived, or will arrive."""
        for sent in self._log.read() if self._log else ():
            self._calls = max(self._calls, sent.number)
            self.latest_at = max(self.latest_at, sent.arrives_at)
            self.book.send(sent)
        self.fills()  # messages of the time between two runs are lost

    # -- calls: each takes time and may be lost -------------------------------------------------

    def place(self, request: Request) -> ExchangeOrder:
        found = self._call("place", request.client_order_id, request)
        if found is None:
            raise ExchangeTimeout(f"{request.client_order_id} came too late for the exchange")
        return found

    def cancel(self, client_order_id: str) -> ExchangeOrder | None:
        return self._call("cancel", client_order_id, None)

    def find(self, client_order_id: str) -> ExchangeOrder | None:
        return self._call("find", client_order_id, None)

    def orders(self) -> list[ExchangeOrder]:
        self._call("orders", "", None)
        return self.book.views(self.clock.now())

    # -- messages and quotes
    # ----------------------------------------------------------------------

    def fills(self) -> list[Fill]:
        now = self.clock.now()
        self.book.settle(now)
        self._announce(now)
        come = []
        while self._messages and self._messages[0][0] <= now:
            come.append(heapq.heappop(self._messages)[2])
        return come

    def quote(self, symbol: str) -> Quote:
        now, seed = self.clock.now(), self._seed
        stretch = int(now // self._faults.outage_seconds)
        if draw(seed, "still", symbol, stretch) < self._faults.stale_quotes:
            now = stretch * self._faults.outage_seconds
        tick = int(now // TICK_SECONDS)
        moved = base_price(seed, symbol) * between(0.99, 1.01, draw(seed, "tick", symbol, tick))
        bid = Decimal(int(moved * 100)) * PRICE_STEP
        return Quote(symbol, bid, bid + PRICE_STEP, tick * TICK_SECONDS)

    # -- for observers
    # ----------------------------------------------------------------------------

    def truth(self) -> list[ExchangeOrder]:
        """The orders as they stand, without the faults of the network."""
        self.book.settle(self.clock.now())
        return self.book.views(self.clock.now())

    def close(self) -> None:
        if self._log:
            self._log.close()

    # -- inside -----------------------------------------------------------------------------------

    def _call(self, kind: str, name: str, request: Request | None) -> ExchangeOrder | None:
        """Sends the request and returns the order that the call found."""
        self._calls += 1
        begun = self.clock.now()
        fate = Fate.of(self._faults, self._seed, kind, name, self._calls, now=begun)
        if kind in ("place", "cancel"):
            for after in (fate.arrives_after, fate.again_after):
                if after is not None:
                    self._send(begun + after, name, request)
        timeout = self._faults.timeout_ms / 1000
        self.clock.pause(timeout if fate.replies_after is None else fate.replies_after)
        self.book.settle(self.clock.now())
        if fate.arrives_after is None or fate.replies_after is None:
            raise ExchangeTimeout(
                f"no reply to {kind} {name} within {timeout:g} s: the request may have arrived; "
                "look its client_order_id up"
            )
        return self.book.view(name, begun + fate.arrives_after)

    def _send(self, arrives_at: float, name: str, request: Request | None) -> None:
        sent = Sent(number=self._calls, arrives_at=arrives_at, client_order_id=name, place=request)
        if self._log:
            self._log.append(sent)
        self.book.send(sent)

    def _announce(self, now: float) -> None:
        """Queues messages for the fills since the last call."""
        for name, order in self.book.resting.items():
            known = self._announced.get(name, 0)
            fills = order.fills(now)
            for fill in fills[known:]:
                for after in self._delays(fill):
                    key = int(draw(self._seed, fill.fill_id, after) * 2**52)
                    heapq.heappush(self._messages, (fill.filled_at + after, key, fill))
            self._announced[name] = len(fills)

    def _delays(self, fill: Fill) -> list[float]:
        def drawn(name: str) -> float:
            return draw(self._seed, name, fill.fill_id)

        if drawn("unsaid") < self._faults.lost_fills:
            return []
        late = drawn("order") < self._faults.reordered_fills
        first = between(0.001, REORDER_SECONDS if late else 0.02, drawn("said"))
        if drawn("twice") < self._faults.repeated_fills:
            return [first, first + between(0.0, REORDER_SECONDS, drawn("again"))]
        return [first]
