"""The order, its states and the one table of legal transitions.

Promises: `TRANSITIONS` is the source of the code, the SQL checks and the docs. An order is immutable;
each change creates the next version. Never: I/O, clocks, new ids, binary fractions.
"""

from __future__ import annotations

from decimal import Decimal
from enum import StrEnum
from typing import Final

import msgspec

ZERO: Final = Decimal(0)


class Side(StrEnum):
    BUY = "BUY"
    SELL = "SELL"


class OrderState(StrEnum):
    """The states of an order."""

    PENDING = "PENDING"
    """The intent is durable; whether the exchange has the order is not known yet."""
    OPEN = "OPEN"
    PARTIALLY_FILLED = "PARTIALLY_FILLED"
    CANCEL_PENDING = "CANCEL_PENDING"
    """A cancel was requested; the exchange has not confirmed it, and may still fill the order."""
    FILLED = "FILLED"
    CANCELED = "CANCELED"
    REJECTED = "REJECTED"


S = OrderState
TRANSITIONS: Final[dict[OrderState, frozenset[OrderState]]] = {
    # A fill, or the answer to a cancel, may arrive before the exchange's "accepted".
    S.PENDING: frozenset(
        {S.OPEN, S.PARTIALLY_FILLED, S.CANCEL_PENDING, S.FILLED, S.CANCELED, S.REJECTED}
    ),
    # An exchange may accept first and reject later, e.g. an order that would trade with itself.
    S.OPEN: frozenset({S.PARTIALLY_FILLED, S.CANCEL_PENDING, S.FILLED, S.CANCELED, S.REJECTED}),
    S.PARTIALLY_FILLED: frozenset({S.CANCEL_PENDING, S.FILLED, S.CANCELED}),
    # Back to the earlier state when the exchange refuses the cancel.
    S.CANCEL_PENDING: frozenset({S.OPEN, S.PARTIALLY_FILLED, S.FILLED, S.CANCELED, S.REJECTED}),
    S.FILLED: frozenset(),
    S.CANCELED: frozenset(),
    S.REJECTED: frozenset(),
}
TERMINAL: Final = frozenset(state for state, nexts in TRANSITIONS.items() if not nexts)
OPEN_STATES: Final = frozenset(TRANSITIONS) - TERMINAL
"""States in which the order may still trade: the open set."""
_OPEN: Final = tuple(OPEN_STATES)


class Order(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One order in a store. Times are epoch seconds, money is Decimal."""

    client_order_id: str
    """Derived from the idempotency key, so it can be looked up at the exchange after a crash."""
    symbol: str
    side: Side
    qty: Decimal
    price: Decimal
    state: OrderState
    filled_qty: Decimal = ZERO
    """Total quantity filled so far; never decreases."""
    avg_fill_price: Decimal | None = None
    version: int = 1
    epoch: int = 0
    """The freeze epoch in which it was placed."""
    created_at: float
    updated_at: float
    idem_key: str | None = None

    @property
    def is_open(self) -> bool:
        return self.state in _OPEN  # A tuple, because hashing an enum is slow.

    @property
    def remaining_qty(self) -> Decimal:
        return self.qty - self.filled_qty


class Intent(msgspec.Struct, frozen=True):
    """An order before it is written. `key` identifies the request, not the attempt."""

    symbol: str
    side: Side
    qty: Decimal
    price: Decimal
    key: str


class FreezeState(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Whether orders may be placed. The epoch increases by one with every freeze."""

    epoch: int = 0
    frozen: bool = False
    reason: str = ""
    at: float = 0.0


class Answered(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The remembered answer to a request with an idempotency key."""

    operation: str
    key: str
    request: str
    """The request in canonical form: the same key with another request is a conflict."""
    ids: tuple[str, ...] = ()
    """The orders of the answer."""
    changed: bool = True
    at: float


_encoder: Final = msgspec.json.Encoder(order="sorted", decimal_format="string")
_decoder: Final = msgspec.json.Decoder(Order)


def order_json(order: Order) -> str:
    """Canonical JSON: sorted keys, no whitespace, money as text."""
    return _encoder.encode(order).decode()


def order_from_json(text: str | bytes) -> Order:
    return _decoder.decode(text)
