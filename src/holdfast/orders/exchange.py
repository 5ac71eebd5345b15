"""What the execution loop needs of an exchange, and the plain data that goes between them.

Promises: the loop relies on this and on nothing more: an order is found by the client_order_id that we gave
it; placing the same client_order_id again acts once; a request is not accepted after its `valid_until`.
Replies may be lost, fill messages may be lost, repeated and out of order.
Never: an exchange's own id; two fills that are told apart by anything but the quantity filled so far.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from enum import StrEnum
from typing import Final, Protocol

import msgspec

from holdfast.core.check import check_number, shown
from holdfast.errors import InvalidInput
from holdfast.orders.money import check_amount
from holdfast.orders.order import Side
from holdfast.orders.rules import check_symbol

TIME_MAX: Final = 1e11
"""In epoch seconds: some 3,000 years."""


class ExchangeState(StrEnum):
    """Where an order stands at the exchange. Partly filled is OPEN with something filled."""

    OPEN = "OPEN"
    FILLED = "FILLED"
    CANCELED = "CANCELED"
    REJECTED = "REJECTED"


class Request(msgspec.Struct, frozen=True):
    """One order as it is sent. Sent again it is the same, to the last field."""

    client_order_id: str
    symbol: str
    side: Side
    qty: Decimal
    price: Decimal
    valid_until: float
    """The exchange must not accept it later: what was not found after this never arrived. The time is that of
    the order store; an adapter converts it to the exchange's clock."""


class ExchangeOrder(msgspec.Struct, frozen=True):
    """An order as the exchange has it."""

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
    """A message of the exchange: how much of an order is filled by now, in all."""

    fill_id: str
    client_order_id: str
    filled_qty: Decimal
    avg_fill_price: Decimal
    filled_at: float


class Quote(msgspec.Struct, frozen=True):
    """The market in a symbol, and when it was seen."""

    symbol: str
    bid: Decimal
    ask: Decimal
    seen_at: float


def check_quote(quote: Quote) -> None:
    """A price that is no number would make every comparison with a limit false, or fail."""
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
    """Every call but `fills` and `quote` may raise ExchangeTimeout: then nobody knows what it did."""

    def place(self, request: Request) -> ExchangeOrder:
        """The order as it stands; a client_order_id that is known is answered, not placed again."""
        ...

    def cancel(self, client_order_id: str) -> ExchangeOrder | None:
        """The order as it stands after it: CANCELED, or FILLED when a fill was first; None: unknown."""
        ...

    def find(self, client_order_id: str) -> ExchangeOrder | None:
        """The order as it stands; None: not known to the exchange, at the moment."""
        ...

    def orders(self) -> list[ExchangeOrder]:
        """Every order of ours that it keeps, by client_order_id."""
        ...

    def fills(self) -> list[Fill]:
        """The messages that came in since the last call."""
        ...

    def quote(self, symbol: str) -> Quote: ...
