"""The risk monitor: which order is refused, and what stops trading.

Promises: an order that could break a limit at the worst price that it may get is refused before anything is
written; a limit that is broken anyway (by fills, rejects, a silent market, orders that nobody knows) trips a
freeze with its reason; from the moment a freeze is asked for, by any thread, every order is refused.
Never: calls the exchange or the store; the loop does what it says.
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
    price_band: Decimal | None = None
    """The exchange refuses limits that are further than this share from the market (0.1: a tenth). It
    bounds what a sell may bring while there is no fresh quote; without it such a sell is refused."""

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
    """Why this order must not be placed; None: it may. `marks` are the last prices that were seen, `fresh`
    is that of this symbol unless it is too old to rely on."""
    price = _worst(limits, intent, fresh)
    if price is None:
        return (
            f"there is no fresh quote of {intent.symbol}, so what this sell may bring is not known: "
            "give step() quotes, or state the exchange's price_band"
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
    """The highest price that the order may trade at; None: not known."""
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
    """Which limit is broken as things stand; None: none."""
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
    """Judges with `limits`, counts rejects, and keeps what a person asked for. `freeze` may be called from
    any thread; the rest belongs to the loop's."""

    def __init__(self, limits: Limits | None = None) -> None:
        if not isinstance(limits, Limits | None):
            raise BadConfig(f"limits is {shown(limits)}: give Limits")
        self.limits = limits or Limits()
        self._rejects: deque[bool] = deque(maxlen=self.limits.reject_window)
        self._lock = threading.Lock()
        self._asked: str | None = None
        """A wish for a freeze that the loop has not seen yet."""
        self._heeded: str | None = None
        """One that it has seen."""
        self._unknown = 0
        self._quotes: dict[str, Quote] = {}
        self._marks: dict[str, Decimal] = {}

    def freeze(self, reason: str) -> None:
        """A wish, of a person or of the loop: nothing is placed from now on, the next step freezes."""
        with self._lock:
            self._asked = self._asked or clean_reason(reason) or "a freeze was asked for"

    def wish(self) -> str | None:
        """The reason of a freeze that is asked for; None: none is."""
        return self._heeded or self._asked

    def heed(self) -> str | None:
        """The same, by the loop, which freezes for it or is frozen already."""
        with self._lock:
            self._heeded = self._heeded or self._asked
            self._asked = None
            return self._heeded

    def thaw(self) -> None:
        """Forgets what led to the freeze; limits that are still broken trip it again. A wish that the loop
        has not seen yet came after the freeze, and stays."""
        self._heeded = None
        self._unknown = 0
        self._rejects.clear()

    def heard(self, *, rejected: bool) -> None:
        """The exchange's answer to one new order."""
        self._rejects.append(rejected)

    def unknown(self, count: int) -> None:
        """So many orders at the exchange are not in our store."""
        self._unknown = count

    def quoted(self, quote: Quote) -> None:
        """The market, as it was seen last. InvalidInput when it says what no market can."""
        check_quote(quote)
        known = self._quotes.get(quote.symbol)
        if known is None or known.seen_at <= quote.seen_at:
            self._quotes[quote.symbol] = quote
            self._marks[quote.symbol] = max(quote.bid, quote.ask)

    def fresh(self, symbol: str, now: float) -> Decimal | None:
        """The price in a symbol; None: none was seen of late."""
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
