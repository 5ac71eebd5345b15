"""The risk monitor: which order is refused, and what stops trading.

Promises: an order that could break a limit is refused before anything is written; a limit that is broken
anyway (by fills, rejects, a silent market, orders that nobody knows) trips a freeze with its reason.
Never: calls the exchange or the store; the loop does what it says.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from decimal import Decimal

import msgspec

from holdfast.orders.exchange import Quote
from holdfast.orders.exposure import Exposure
from holdfast.orders.order import Side


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Every limit is the last value that is allowed."""

    order_notional_max: Decimal = Decimal(100_000)
    open_notional_max: Decimal = Decimal(1_000_000)
    """Of all open orders together."""
    position_notional_max: Decimal = Decimal(500_000)
    """For each symbol, bought or sold."""
    open_orders_max: int = 200
    reject_rate_max: float = 0.5
    reject_window: int = 20
    """The rate is judged over the last so many orders, once there were so many."""
    stale_market_seconds: float = 30.0
    unknown_orders_max: int = 0
    """Orders at the exchange that our store does not know."""


class Intent(msgspec.Struct, frozen=True):
    """An order that somebody wants, before anything is written. `key` names the wish, not the try."""

    symbol: str
    side: Side
    qty: Decimal
    price: Decimal
    key: str


def refusal(limits: Limits, exposure: Exposure, intent: Intent) -> str | None:
    """Why this order must not be placed; None: it may."""
    notional = intent.qty * intent.price
    if notional > limits.order_notional_max:
        return f"its notional {notional} is over order_notional_max {limits.order_notional_max}"
    open_notional = exposure.open_notional + notional
    if open_notional > limits.open_notional_max:
        return f"{open_notional} would be open, over open_notional_max {limits.open_notional_max}"
    if exposure.open_orders + 1 > limits.open_orders_max:
        return (
            f"{exposure.open_orders} orders are open, open_orders_max is {limits.open_orders_max}"
        )
    worst = exposure.holding(intent.symbol).worst(intent.side, intent.qty) * intent.price
    if worst > limits.position_notional_max:
        return (
            f"the position in {intent.symbol} could become {worst}, over position_notional_max "
            f"{limits.position_notional_max}"
        )
    return None


def breach(limits: Limits, exposure: Exposure, quotes: Iterable[Quote], now: float) -> str | None:
    """Which limit is broken as things stand; None: none."""
    if exposure.open_orders > limits.open_orders_max:
        return f"{exposure.open_orders} open orders, open_orders_max is {limits.open_orders_max}"
    if exposure.open_notional > limits.open_notional_max:
        return f"{exposure.open_notional} open, open_notional_max is {limits.open_notional_max}"
    for quote in quotes:
        silent = now - quote.seen_at
        if silent > limits.stale_market_seconds:
            return (
                f"the market in {quote.symbol} has been silent for {silent:.1f} s, "
                f"stale_market_seconds is {limits.stale_market_seconds:g}"
            )
        held = abs(exposure.holding(quote.symbol).position) * quote.ask
        if held > limits.position_notional_max:
            return (
                f"the position in {quote.symbol} is worth {held}, position_notional_max is "
                f"{limits.position_notional_max}"
            )
    return None


class RiskMonitor:
    """Judges with `limits`, counts rejects, and keeps what a person asked for."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self._rejects: deque[bool] = deque(maxlen=self.limits.reject_window)
        self._asked: str | None = None
        self._unknown = 0

    def freeze(self, reason: str) -> None:
        """A person's wish: the loop's next step freezes."""
        self._asked = reason

    def thaw(self) -> None:
        """Forgets what led to the freeze; limits that are still broken trip it again."""
        self._asked = None
        self._unknown = 0
        self._rejects.clear()

    def heard(self, *, rejected: bool) -> None:
        """The exchange's answer to one new order."""
        self._rejects.append(rejected)

    def unknown(self, count: int) -> None:
        """So many orders at the exchange are not in our store."""
        self._unknown = count

    def refusal(self, exposure: Exposure, intent: Intent) -> str | None:
        return refusal(self.limits, exposure, intent)

    def tripped(self, exposure: Exposure, quotes: Iterable[Quote], now: float) -> str | None:
        """Why trading must stop now; None: it may go on."""
        if self._asked is not None:
            return self._asked
        if self._unknown > self.limits.unknown_orders_max:
            return f"{self._unknown} orders at the exchange are not in our store"
        rate = sum(self._rejects) / self.limits.reject_window
        if len(self._rejects) == self.limits.reject_window and rate > self.limits.reject_rate_max:
            return (
                f"{rate:.0%} of the last {len(self._rejects)} orders were rejected, "
                f"reject_rate_max is {self.limits.reject_rate_max:.0%}"
            )
        return breach(self.limits, exposure, quotes, now)
