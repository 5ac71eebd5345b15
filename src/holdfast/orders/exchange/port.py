"""The port to an exchange, and the plain data that crosses it.

Promises: the loop relies on the following and on nothing more. An order is found by its client_order_id.
Placing the same client_order_id again has no further effect. A request is not accepted after its
`valid_until`. Replies may be lost; fill messages may be lost, repeated or reordered.
Never: uses an id that the exchange assigned, or compares fills by anything but the quantity filled so
far.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from enum import StrEnum
from typing import Final, Protocol

import msgspec

from holdfast.core.check import check_number, shown
from holdfast.errors import InvalidInput
from holdfast.orders.model.money import check_amount
from holdfast.orders.model.order import Side
from holdfast.orders.model.rules import check_symbol

TIME_MAX: Final = 1e11
"""Latest time that is accepted, in epoch seconds: about 3,000 years from now."""


class ExchangeState(StrEnum):
    """State of an order at the exchange. A partly filled order is OPEN."""

    OPEN = "OPEN"
    FILLED = "FILLED"
    CANCELED = "CANCELED"
    REJECTED = "REJECTED"


class Request(msgspec.Struct, frozen=True):
    """One order as it is sent. A repeat is identical in every field."""

    client_order_id: str
    symbol: str
    side: Side
    qty: Decimal
    price: Decimal
    valid_until: float
    """The exchange must not accept it later. An order that is not found after this time never arrived. It is
    store time; an adapter converts it to the exchange's clock."""


class ExchangeOrder(msgspec.Struct, frozen=True):
    """An order as the exchange reports it."""

    client_order_id: str
    symbol: str
    side: Side
    qty: Decimal
    price: Decimal
    state: ExchangeState
    filled_qty: Decimal
    avg_fill_price: Decimal
    reason: str = ""

    @property
    def is_open(self) -> bool:
        return self.state is ExchangeState.OPEN


class Fill(msgspec.Struct, frozen=True):
    """A fill message: the total quantity filled so far."""

    fill_id: str
    client_order_id: str
    filled_qty: Decimal
    avg_fill_price: Decimal
    filled_at: float


class Quote(msgspec.Struct, frozen=True):
    """The market in a symbol, and when it was observed."""

    symbol: str
    bid: Decimal
    ask: Decimal
    seen_at: float


def check_quote(quote: Quote) -> None:
    """Raises InvalidInput for a price that is not a number: comparing it with a limit would be false, or
    fail."""
    if not isinstance(quote, Quote):
        raise InvalidInput(f"a quote is {shown(quote)}: give a Quote")
    check_symbol(quote.symbol)
    check_amount("bid", quote.bid)
    check_amount("ask", quote.ask)
    check_number("seen_at", quote.seen_at, most=TIME_MAX)


def checked_quotes(quotes: Iterable[Quote]) -> list[Quote]:
    if not isinstance(quotes, Iterable):
        raise InvalidInput(f"quotes is {shown(quotes)}: give a list of Quotes")
    found = list(quotes)
    for quote in found:
        check_quote(quote)
    return found


class Exchange(Protocol):
    """Every call but `fills` and `quote` may raise ExchangeTimeout. Then it is not known what the call
    did."""

    def place(self, request: Request) -> ExchangeOrder:
        """Places the order and returns its state. A known client_order_id is returned, not placed again."""
        ...

    def cancel(self, client_order_id: str) -> ExchangeOrder | None:
        """The order after the cancel: CANCELED, or FILLED when a fill came first. None: unknown order."""
        ...

    def find(self, client_order_id: str) -> ExchangeOrder | None:
        """The order as it stands. None: the exchange does not know it at the moment."""
        ...

    def orders(self) -> list[ExchangeOrder]:
        """Every order of this account that the exchange has, by client_order_id."""
        ...

    def fills(self) -> list[Fill]:
        """The messages that arrived since the last call."""
        ...

    def quote(self, symbol: str) -> Quote: ...
