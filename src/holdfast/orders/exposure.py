"""What we hold and what we could come to hold: a running sum over orders.

Promises: it equals the sum over the orders that it was given, in their latest form. Never: I/O.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

import msgspec

from holdfast.orders.order import ZERO, Order, Side


class Holding(msgspec.Struct):
    """One symbol."""

    position: Decimal = ZERO
    """Bought less sold."""
    open_buys: Decimal = ZERO
    open_sells: Decimal = ZERO
    """What is open may still be filled."""
    open_notional: Decimal = ZERO

    def worst(self, side: Side, qty: Decimal) -> Decimal:
        """The largest position, either way, if this and all that is open were filled."""
        buys = self.open_buys + (qty if side is Side.BUY else ZERO)
        sells = self.open_sells + (qty if side is Side.SELL else ZERO)
        return max(self.position + buys, sells - self.position)


class Exposure:
    """Holdings by symbol."""

    def __init__(self, orders: Iterable[Order] = ()) -> None:
        self.holdings: dict[str, Holding] = {}
        self.open_orders = 0
        self._latest: dict[str, Order] = {}
        for order in orders:
            self.put(order)

    def holding(self, symbol: str) -> Holding:
        return self.holdings.setdefault(symbol, Holding())

    def put(self, order: Order) -> None:
        """An order that is new or has changed."""
        holding = self.holding(order.symbol)
        before = self._latest.get(order.client_order_id)
        if before is not None:
            self._add(holding, before, -1)
        self._add(holding, order, 1)
        self._latest[order.client_order_id] = order

    def _add(self, holding: Holding, order: Order, sign: int) -> None:
        filled, buys, sells, notional = _parts(order)
        holding.position += sign * filled
        holding.open_buys += sign * buys
        holding.open_sells += sign * sells
        holding.open_notional += sign * notional
        self.open_orders += sign * order.is_open

    @property
    def open_notional(self) -> Decimal:
        return sum((each.open_notional for each in self.holdings.values()), ZERO)


def _parts(order: Order) -> tuple[Decimal, Decimal, Decimal, Decimal]:
    is_buy = order.side is Side.BUY
    filled = order.filled_qty if is_buy else -order.filled_qty
    if not order.is_open:
        return filled, ZERO, ZERO, ZERO
    rest = order.remaining_qty
    return filled, rest if is_buy else ZERO, ZERO if is_buy else rest, rest * order.price
