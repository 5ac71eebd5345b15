"""The order, its states and the one table of legal moves.

Promises: `TRANSITIONS` is the source of the code, the SQL checks and the docs; an order is never changed,
each change makes a new one with the next version. Never: I/O, clocks, ids made here, binary fractions.
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
    """Where an order is in its life."""

    PENDING = "PENDING"
    """The intent is on disk; whether the exchange has it is not known yet."""
    OPEN = "OPEN"
    PARTIALLY_FILLED = "PARTIALLY_FILLED"
    CANCEL_PENDING = "CANCEL_PENDING"
    """We want it gone; the exchange has not said so yet, and may still fill it."""
    FILLED = "FILLED"
    CANCELED = "CANCELED"
    REJECTED = "REJECTED"


S = OrderState
TRANSITIONS: Final[dict[OrderState, frozenset[OrderState]]] = {
    # A fill, or the answer to a cancel, may be heard before the exchange's "accepted".
    S.PENDING: frozenset(
        {S.OPEN, S.PARTIALLY_FILLED, S.CANCEL_PENDING, S.FILLED, S.CANCELED, S.REJECTED}
    ),
    # An exchange may accept first and reject later, e.g. what would trade with itself.
    S.OPEN: frozenset({S.PARTIALLY_FILLED, S.CANCEL_PENDING, S.FILLED, S.CANCELED, S.REJECTED}),
    S.PARTIALLY_FILLED: frozenset({S.CANCEL_PENDING, S.FILLED, S.CANCELED}),
    # Back to where it was when the exchange refuses the cancel.
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
    """One order as a store has it; times are epoch seconds, money is Decimal."""

    client_order_id: str
    """Follows from the idempotency key, so an exchange can be asked by it after a crash."""
    symbol: str
    side: Side
    qty: Decimal
    price: Decimal
    state: OrderState
    filled_qty: Decimal = ZERO
    """All that was filled so far; it never falls."""
    avg_fill_price: Decimal | None = None
    version: int = 1
    epoch: int = 0
    """The freeze epoch that it was placed in."""
    created_at: float
    updated_at: float
    idem_key: str | None = None

    @property
    def is_open(self) -> bool:
        return self.state in _OPEN  # Of a tuple, because the hash of an enum is slow.

    @property
    def remaining_qty(self) -> Decimal:
        return self.qty - self.filled_qty


class Intent(msgspec.Struct, frozen=True):
    """An order before anything is written. `key` names the request, not the attempt."""

    symbol: str
    side: Side
    qty: Decimal
    price: Decimal
    key: str


class FreezeState(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Whether orders may be placed. The epoch rises by one with every freeze and never falls."""

    epoch: int = 0
    frozen: bool = False
    reason: str = ""
    at: float = 0.0


class Answered(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What was answered to a request with an idempotency key."""

    operation: str
    key: str
    request: str
    """The request in canonical words: the same key with other words is a conflict."""
    ids: tuple[str, ...] = ()
    """The orders that it was about."""
    changed: bool = True
    at: float


_encoder: Final = msgspec.json.Encoder(order="sorted", decimal_format="string")
_decoder: Final = msgspec.json.Decoder(Order)


def order_json(order: Order) -> str:
    """Canonical JSON: sorted keys, no blanks, money as text."""
    return _encoder.encode(order).decode()


def order_from_json(text: str | bytes) -> Order:
    return _decoder.decode(text)
