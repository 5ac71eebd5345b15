"""The risk monitor: which order is refused, and when trading stops.

Promises: an order that could exceed a limit at its worst price is refused before it is written. A limit
that is exceeded anyway (by fills, rejects, stale quotes, unknown orders) trips a freeze with its reason.
From the moment a freeze is requested, by any thread, every order is refused.
Never: calls the exchange or the store; the loop acts on its answers.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Final

import msgspec

from holdfast.core.check import check_number, check_whole, shown
from holdfast.errors import BadConfig
from holdfast.orders.exchange.port import Quote, check_quote
from holdfast.orders.execution.exposure import Exposure, worst_price
from holdfast.orders.model.money import check_amount
from holdfast.orders.model.order import Intent, Side
from holdfast.orders.model.rules import clean_reason

COUNT_MAX: Final = 1_000_000


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Each limit is the largest value that is allowed."""

    order_notional_max: Decimal = Decimal(100_000)
    open_notional_max: Decimal = Decimal(1_000_000)
    """The value of all open orders together."""
    position_notional_max: Decimal = Decimal(500_000)
    """The value of the position in each symbol, long or short."""
    open_orders_max: int = 200
    reject_rate_max: float = 0.5
    reject_window: int = 20
    """The reject rate is judged over a window of this many orders, once the window is full."""
    stale_market_seconds: float = 30.0
    unknown_orders_max: int = 0
    """Orders at the exchange that the store does not know."""
    price_band: Decimal | None = None
    """The exchange refuses limit prices further than this share from the market (0.1: ten percent). It
    bounds the price of a sell while there is no fresh quote; without it such a sell is refused."""

    def __post_init__(self) -> None:
        for name in ("order_notional_max", "open_notional_max", "position_notional_max"):
            check_amount(name, getattr(self, name), wrong=BadConfig)
        if self.price_band is not None:
            check_amount("price_band", self.price_band, below=Decimal(1), wrong=BadConfig)
        for name in ("open_orders_max", "unknown_orders_max"):
            check_whole(name, getattr(self, name), least=0, most=COUNT_MAX, wrong=BadConfig)
        check_whole("reject_window", self.reject_window, least=1, most=COUNT_MAX, wrong=BadConfig)
        check_number("reject_rate_max", self.reject_rate_max, most=1.0, wrong=BadConfig)
        check_number("stale_market_seconds", self.stale_market_seconds, wrong=BadConfig)


def refusal(
    limits: Limits,
    exposure: Exposure,
    intent: Intent,
    marks: Mapping[str, Decimal],
    fresh: Decimal | None,
) -> str | None:
    """Why this order must not be placed; None: it may. `marks` are the last observed prices. `fresh` is
    the price of this symbol, unless it is too old."""
    price = _worst(limits, intent, fresh)
    if price is None:
        return (
            f"there is no fresh quote of {intent.symbol}, so the price of this sell has no bound: "
            "pass quotes to step(), or set the exchange's price_band"
        )
    notional = intent.qty * price
    if notional > limits.order_notional_max:
        return f"its notional {notional} is over order_notional_max {limits.order_notional_max}"
    open_notional = exposure.open_notional(marks) + notional
    if open_notional > limits.open_notional_max:
        return f"{open_notional} would be open, over open_notional_max {limits.open_notional_max}"
    if exposure.open_orders + 1 > limits.open_orders_max:
        return (
            f"{exposure.open_orders} orders are open, open_orders_max is {limits.open_orders_max}"
        )
    worth = max(price, marks.get(intent.symbol, price))
    worst = exposure.holding(intent.symbol).worst(intent.side, intent.qty) * worth
    if worst > limits.position_notional_max:
        return (
            f"the position in {intent.symbol} could become {worst}, over position_notional_max "
            f"{limits.position_notional_max}"
        )
    return None


def _worst(limits: Limits, intent: Intent, fresh: Decimal | None) -> Decimal | None:
    """The highest price that the order may trade at; None: unknown."""
    if intent.side is Side.BUY or fresh is not None:
        return worst_price(intent.side, intent.price, fresh)
    if limits.price_band is None:
        return None
    return intent.price / (1 - limits.price_band)


def breach(
    limits: Limits,
    exposure: Exposure,
    quotes: Iterable[Quote],
    marks: Mapping[str, Decimal],
    now: float,
) -> str | None:
    """The limit that is exceeded now; None: no limit is."""
    if exposure.open_orders > limits.open_orders_max:
        return f"{exposure.open_orders} open orders, open_orders_max is {limits.open_orders_max}"
    open_notional = exposure.open_notional(marks)
    if open_notional > limits.open_notional_max:
        return f"{open_notional} open, open_notional_max is {limits.open_notional_max}"
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
    """Judges orders by `limits`, counts rejects, and holds requested freezes. `freeze` may be called from
    any thread; the other methods only from the thread of the loop."""

    def __init__(self, limits: Limits | None = None) -> None:
        if not isinstance(limits, Limits | None):
            raise BadConfig(f"limits is {shown(limits)}: give Limits")
        self.limits = limits or Limits()
        self._rejects: deque[bool] = deque(maxlen=self.limits.reject_window)
        self._lock = threading.Lock()
        self._asked: str | None = None
        """A requested freeze that the loop has not seen yet."""
        self._heeded: str | None = None
        """A requested freeze that the loop has seen."""
        self._unknown = 0
        self._quotes: dict[str, Quote] = {}
        self._marks: dict[str, Decimal] = {}

    def freeze(self, reason: str) -> None:
        """Requests a freeze: nothing is placed from now on, and the next step freezes."""
        with self._lock:
            self._asked = self._asked or clean_reason(reason) or "a freeze was asked for"

    def wish(self) -> str | None:
        """The reason of a requested freeze; None: no freeze is requested."""
        return self._heeded or self._asked

    def heed(self) -> str | None:
        """The same, for the loop, which freezes for it or is frozen already."""
        with self._lock:
            self._heeded = self._heeded or self._asked
            self._asked = None
            return self._heeded

    def thaw(self) -> None:
        """Clears the causes of the freeze; limits that are still exceeded trip it again. A requested
        freeze that the loop has not seen yet stays."""
        self._heeded = None
        self._unknown = 0
        self._rejects.clear()

    def heard(self, *, rejected: bool) -> None:
        """Counts the answer of the exchange to one new order."""
        self._rejects.append(rejected)

    def unknown(self, count: int) -> None:
        """Sets how many orders at the exchange the store does not know."""
        self._unknown = count

    def quoted(self, quote: Quote) -> None:
        """Records a quote. Raises InvalidInput for an impossible one."""
        check_quote(quote)
        known = self._quotes.get(quote.symbol)
        if known is None or known.seen_at <= quote.seen_at:
            self._quotes[quote.symbol] = quote
            self._marks[quote.symbol] = max(quote.bid, quote.ask)

    def fresh(self, symbol: str, now: float) -> Decimal | None:
        """The price of a symbol; None if the last quote is too old."""
        quote = self._quotes.get(symbol)
        if quote is None or now - quote.seen_at > self.limits.stale_market_seconds:
            return None
        return self._marks[symbol]

    def refusal(self, exposure: Exposure, intent: Intent, now: float) -> str | None:
        if (why := self.wish()) is not None:
            return f"a freeze was asked for ({why})"
        fresh = self.fresh(intent.symbol, now)
        return refusal(self.limits, exposure, intent, self._marks, fresh)

    def tripped(self, exposure: Exposure, quotes: Iterable[Quote], now: float) -> str | None:
        """Why trading must stop now; None: it may go on."""
        quotes = list(quotes)
        for quote in quotes:
            self.quoted(quote)
        if (why := self.heed()) is not None:
            return why
        if self._unknown > self.limits.unknown_orders_max:
            return f"{self._unknown} orders at the exchange are not in our store"
        rate = sum(self._rejects) / self.limits.reject_window
        if len(self._rejects) == self.limits.reject_window and rate > self.limits.reject_rate_max:
            return (
                f"{rate:.0%} of the last {len(self._rejects)} orders were rejected, "
                f"reject_rate_max is {self.limits.reject_rate_max:.0%}"
            )
        return breach(self.limits, exposure, quotes, self._marks, now)
