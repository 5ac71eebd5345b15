"""What the execution loop needs of an exchange, and the plain data that goes between them.

Promises: the loop relies on this and on nothing more: an order is found by the client_order_id that we gave
it; placing the same client_order_id again acts once; a request is not accepted after its `valid_until`.
Replies may be lost, fill messages may be lost, repeated and out of order.
Never: an exchange's own id; two fills that are told apart by anything but the quantity filled so far.
"""

from __future__ import annotations

from decimal import Decimal
from enum import StrEnum
from typing import Protocol

import msgspec

from holdfast.orders.order import Side


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
    """The exchange must not accept it later: what was not found after this never arrived."""


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
