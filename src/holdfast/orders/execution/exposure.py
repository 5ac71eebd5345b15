"""Positions, and what they could become if open orders were filled: a running sum over orders.

Promises: equals the sum over the latest version of each order that was put. Never: I/O.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal

import msgspec

from holdfast.orders.model.order import ZERO, Order, Side


class Holding(msgspec.Struct):
    """The position in one symbol."""

    position: Decimal = ZERO
    """Bought less sold."""
    open_buys: Decimal = ZERO
    open_sells: Decimal = ZERO
    """Quantities of open orders, which may still be filled."""

    def worst(self, side: Side, qty: Decimal) -> Decimal:
        """The largest position, long or short, if this quantity and all open orders were filled."""
        buys = self.open_buys + (qty if side is Side.BUY else ZERO)
        sells = self.open_sells + (qty if side is Side.SELL else ZERO)
        return max(self.position + buys, sells - self.position)


class Exposure:
    """Holdings by symbol."""

    def __init__(self, orders: Iterable[Order] = ()) -> None:
        self.holdings: dict[str, Holding] = {}
        self.open_orders = 0
        self._latest: dict[str, Order] = {}
        self._open: dict[str, Order] = {}
        for order in orders:
            self.put(order)

    def holding(self, symbol: str) -> Holding:
        return self.holdings.setdefault(symbol, Holding())

    def put(self, order: Order) -> None:
        """Adds an order, or replaces its earlier version."""
        holding = self.holding(order.symbol)
        before = self._latest.get(order.client_order_id)
        if before is not None:
            self._add(holding, before, -1)
        self._add(holding, order, 1)
        self._latest[order.client_order_id] = order
        if order.is_open:
            self._open[order.client_order_id] = order
        else:
            self._open.pop(order.client_order_id, None)

    def _add(self, holding: Holding, order: Order, sign: int) -> None:
        filled, buys, sells = _parts(order)
        holding.position += sign * filled
        holding.open_buys += sign * buys
        holding.open_sells += sign * sells
        self.open_orders += sign * order.is_open

    def open_notional(self, marks: Mapping[str, Decimal]) -> Decimal:
        """The value of open orders, each at its worst price."""
        return sum(
            (
                order.remaining_qty * worst_price(order.side, order.price, marks.get(order.symbol))
                for order in self._open.values()
            ),
            ZERO,
        )


def worst_price(side: Side, limit: Decimal, mark: Decimal | None) -> Decimal:
    """The highest price of the order: the limit of a buy is its maximum, the limit of a sell its minimum."""
    return limit if side is Side.BUY or mark is None else max(limit, mark)


def _parts(order: Order) -> tuple[Decimal, Decimal, Decimal]:
    is_buy = order.side is Side.BUY
    filled = order.filled_qty if is_buy else -order.filled_qty
    if not order.is_open:
        return filled, ZERO, ZERO
    rest = order.remaining_qty
    return filled, rest if is_buy else ZERO, ZERO if is_buy else rest
