"""State of the simulated exchange: requests in flight, and the orders that they created.

Promises: the state is a function of the seed, the requests and the time only. It can be rebuilt from a
list of requests, and orders go on filling while no process runs.
Never: calls, reads a clock or touches a file (see `simulated` and `log`).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from decimal import ROUND_DOWN, ROUND_HALF_EVEN, Decimal, localcontext
from typing import Final

import msgspec

from holdfast.orders.exchange.faults import Faults, between, draw
from holdfast.orders.exchange.port import ExchangeOrder, ExchangeState, Fill, Request
from holdfast.orders.model.order import Side

PIECES_MAX: Final = 4
PRICE_STEP: Final = Decimal("0.01")
PIECE_STEP: Final = Decimal("0.0001")
NOTHING: Final = Decimal(0)


class Sent(msgspec.Struct, frozen=True, kw_only=True):
    """A request in flight, and when it arrives. Without `place` it is a cancel."""

    number: int
    arrives_at: float
    client_order_id: str
    place: Request | None = None


class Resting(msgspec.Struct):
    """An order that has arrived. Its filled quantity is a function of time."""

    request: Request
    accepted_at: float
    plan: tuple[Fill, ...]
    reason: str = ""
    """Why it was rejected; empty if it was not."""
    canceled_at: float | None = None
    rejected_at: float = 0.0
    """When it was rejected, if it was accepted first."""
    is_short: bool = False
    """Reported as filled with less than the ordered quantity."""

    def fills(self, at: float) -> tuple[Fill, ...]:
        end = at if self.canceled_at is None else min(at, self.canceled_at)
        if self.reason:
            end = min(end, self.rejected_at)
        return tuple(fill for fill in self.plan if fill.filled_at <= end)

    def view(self, at: float) -> ExchangeOrder:
        filled, average = NOTHING, NOTHING
        if fills := self.fills(at):
            filled, average = fills[-1].filled_qty, fills[-1].avg_fill_price
        is_done = filled == self.request.qty or (
            self.is_short and bool(self.plan) and filled == self.plan[-1].filled_qty
        )
        if is_done:
            state = ExchangeState.FILLED
        elif self.reason and self.rejected_at <= at and not self._was_canceled():
            state = ExchangeState.REJECTED
        elif self.canceled_at is not None and self.canceled_at <= at:
            state = ExchangeState.CANCELED
        else:
            state = ExchangeState.OPEN
        asked = self.request
        return ExchangeOrder(
            asked.client_order_id,
            asked.symbol,
            asked.side,
            asked.qty,
            asked.price,
            state,
            filled,
            average,
            self.reason,
        )

    def _was_canceled(self) -> bool:
        return self.canceled_at is not None and self.canceled_at <= self.rejected_at


class ExchangeBook:
    """Orders by client_order_id, and the requests in flight."""

    def __init__(self, seed: int, faults: Faults) -> None:
        self._seed = seed
        self._faults = faults
        self._under_way: list[tuple[float, int, Sent]] = []
        self.resting: dict[str, Resting] = {}
        self.acted: list[str] = []
        """The client_order_id of each placement that took effect, in order. Shows that none did twice."""

    def send(self, sent: Sent) -> None:
        heapq.heappush(self._under_way, (sent.arrives_at, sent.number, sent))

    def settle(self, now: float) -> None:
        """Applies every request that has arrived by `now`, in the order of arrival."""
        while self._under_way and self._under_way[0][0] <= now:
            at, _, sent = heapq.heappop(self._under_way)
            if sent.place is None:
                self._cancel(sent.client_order_id, at)
            else:
                self._place(sent.place, at)

    def view(self, client_order_id: str, at: float) -> ExchangeOrder | None:
        order = self.resting.get(client_order_id)
        return None if order is None or order.accepted_at > at else order.view(at)

    def views(self, at: float) -> list[ExchangeOrder]:
        return [order.view(at) for _, order in sorted(self.resting.items())]

    def _place(self, request: Request, at: float) -> None:
        if at > request.valid_until or request.client_order_id in self.resting:
            return  # expired, or a repeat: a client_order_id is placed once
        self.acted.append(request.client_order_id)
        rejected = self._is("reject", request, self._faults.rejects)
        plan = () if rejected else tuple(self._plan(request, at))
        rejected_at = 0.0
        if not rejected and self._is("late reject", request, self._faults.late_rejects):
            rejected = True
            longest = plan[-1].filled_at - at if plan else self._faults.fill_max_ms / 1000
            rejected_at = at + longest * draw(self._seed, "mind", request.client_order_id)
        self.resting[request.client_order_id] = Resting(
            request=request,
            accepted_at=at,
            plan=plan,
            reason="rejected by the exchange" if rejected else "",
            rejected_at=rejected_at,
            is_short=self._is("short", request, self._faults.short_fills),
        )

    def _is(self, what: str, request: Request, share: float) -> bool:
        return draw(self._seed, what, request.client_order_id) < share

    def _cancel(self, client_order_id: str, at: float) -> None:
        order = self.resting.get(client_order_id)
        if order is not None and order.view(at).is_open:
            order.canceled_at = at

    def _plan(self, request: Request, at: float) -> Iterator[Fill]:
        """When and in which parts this order is filled, unless it is cancelled before."""
        seed, name = self._seed, request.client_order_id
        filled, paid, moment = NOTHING, NOTHING, at
        step = Decimal(1).scaleb(-self._faults.average_places)
        with localcontext() as exact:
            exact.prec = 60
            for number, qty in enumerate(self._pieces(request), start=1):
                longest = self._faults.fill_max_ms / 1000
                moment += between(0.001, longest, draw(seed, "fill", name, number))
                better = int(draw(seed, "price", name, number) * 3) * PRICE_STEP
                price = request.price + (better if request.side is Side.SELL else -better)
                filled, paid = filled + qty, paid + qty * max(price, PRICE_STEP)
                average = (paid / filled).quantize(step, ROUND_HALF_EVEN)
                yield Fill(f"{name}.{number}", name, filled, average, moment)

    def _pieces(self, request: Request) -> list[Decimal]:
        seed, name = self._seed, request.client_order_id
        count = 1
        if draw(seed, "partial", name) < self._faults.partial_fills:
            count = 2 + int(draw(seed, "pieces", name) * (PIECES_MAX - 1))
        piece = (request.qty / count).quantize(PIECE_STEP, ROUND_DOWN)
        if piece == 0:
            pieces = [request.qty]
        else:
            pieces = [piece] * (count - 1) + [request.qty - piece * (count - 1)]
        if self._is("short", request, self._faults.short_fills):
            pieces[-1] -= min(PIECE_STEP, pieces[-1] / 2)
        elif draw(seed, "rests", name) < self._faults.resting:
            pieces.pop()
        return pieces
